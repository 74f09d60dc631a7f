"""Whose an address is, for limits: an IPv6 network of 64 bits is one household's, and costs nothing to walk through."""

from __future__ import annotations

import hashlib
import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def counted_as(host: str) -> str:
    """An id of an address under which it is counted, from which nobody reads the address at a glance. Addresses that
    are none (of a Unix socket, or none at all) are one caller."""
    return "address-" + hashlib.blake2b(_network(host).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
