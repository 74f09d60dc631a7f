"""Whose an address is."""

from __future__ import annotations

from app.access.authorization import address_id


def test_an_ipv6_network_of_64_bits_is_one_caller() -> None:
    assert address_id("2001:db8:1:2::1") == address_id("2001:db8:1:2:ffff:ffff:ffff:ffff")
    assert address_id("2001:db8:1:2::1") != address_id("2001:db8:1:3::1")
    assert address_id("fe80::1%eth0") == address_id("fe80::2%eth1")


def test_an_ipv4_address_is_one_caller_however_it_is_written() -> None:
    assert address_id("192.0.2.1") != address_id("192.0.2.2")
    assert address_id("192.0.2.1") == address_id("::ffff:192.0.2.1")


def test_what_is_no_address_is_one_caller() -> None:
    assert address_id("") == address_id("a socket") == address_id("\ud800")


def test_the_id_does_not_show_the_address() -> None:
    found = address_id("192.0.2.1")
    assert found.startswith("address-")
    assert "192" not in found.removeprefix("address-") or "192.0" not in found
    assert len(found) == len("address-") + 24
