"""Whose an address is."""

from __future__ import annotations

from app.access.addresses import counted_as


def test_an_ipv6_network_of_64_bits_is_one_caller() -> None:
    assert counted_as("2001:db8:1:2::1") == counted_as("2001:db8:1:2:ffff:ffff:ffff:ffff")
    assert counted_as("2001:db8:1:2::1") != counted_as("2001:db8:1:3::1")
    assert counted_as("fe80::1%eth0") == counted_as("fe80::2%eth1")


def test_an_ipv4_address_is_one_caller_however_it_is_written() -> None:
    assert counted_as("192.0.2.1") != counted_as("192.0.2.2")
    assert counted_as("192.0.2.1") == counted_as("::ffff:192.0.2.1")


def test_what_is_no_address_is_one_caller() -> None:
    assert counted_as("") == counted_as("a socket") == counted_as("\ud800")


def test_the_id_does_not_show_the_address() -> None:
    found = counted_as("192.0.2.1")
    assert found.startswith("address-")
    assert "192" not in found.removeprefix("address-") or "192.0" not in found
    assert len(found) == len("address-") + 24
