"""The id under which requests of an address are counted."""

from __future__ import annotations

from app.access.authorization import address_id


def test_ipv6_addresses_of_one_64_bit_network_share_an_id() -> None:
    assert address_id("2001:db8:1:2::1") == address_id("2001:db8:1:2:ffff:ffff:ffff:ffff")
    assert address_id("2001:db8:1:2::1") != address_id("2001:db8:1:3::1")
    assert address_id("fe80::1%eth0") == address_id("fe80::2%eth1")


def test_mapped_ipv4_address_has_the_id_of_the_plain_one() -> None:
    assert address_id("192.0.2.1") != address_id("192.0.2.2")
    assert address_id("192.0.2.1") == address_id("::ffff:192.0.2.1")


def test_hosts_that_are_no_addresses_share_an_id() -> None:
    assert address_id("") == address_id("a socket") == address_id("\ud800")


def test_id_does_not_contain_the_address() -> None:
    results = address_id("192.0.2.1")
    assert results.startswith("address-")
    assert "192" not in results.removeprefix("address-") or "192.0" not in results
    assert len(results) == len("address-") + 24
