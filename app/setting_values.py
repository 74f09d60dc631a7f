"""What a setting that is a text may say; each ValueError ends a sentence that begins with the setting."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from app.access.rates import parse_quotas, parse_rates

# Of a page, or of an extension, whose origin a browser makes of the extension's id.
_ORIGIN = re.compile(r"(https?|(chrome|moz|safari-web|edge)-extension|extension)://[^/\s?#@]+")


def _known_devices(value: str) -> str:
    names = [name.strip() for name in value.split(",")]
    if names != ["auto"]:
        for name in names:
            if not re.fullmatch(r"cpu|cuda:\d{1,3}", name):
                raise ValueError('it takes "auto" or a comma-separated list of "cpu" and "cuda:0", "cuda:1", …')
        if len(set(names)) < len(names):
            raise ValueError("it names a device twice")
    return ",".join(names)


def _hard_to_guess(value: SecretStr) -> SecretStr:
    key = value.get_secret_value()
    if key and (len(key) < 16 or not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError("it takes 16 or more ASCII characters without spaces")
    return value


def _rates(value: str) -> str:
    parse_rates(value)
    return value


def _quotas(value: str) -> str:
    parse_quotas(value)
    return value


def _a_redis(value: SecretStr) -> SecretStr:
    if value.get_secret_value() and not re.match(r"(rediss?|unix)://\S", value.get_secret_value()):
        raise ValueError("it takes an address such as redis://redis:6379/0")
    return value


def _an_address(value: str) -> str:
    if value and not re.fullmatch(r"https?://[^\s?#@]+", value):
        raise ValueError('it takes an address such as "https://example.org", without a query')
    return value.rstrip("/")


def _networks(value: str) -> str:
    """Whatever is no address would be believed of nobody, and nobody would notice."""
    networks = [each.strip() for each in value.split(",") if each.strip()]
    for each in networks:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError("it takes addresses and networks such as 127.0.0.1,10.0.0.0/8") from None
    return ",".join(networks)


def _whole_origins(value: str) -> str:
    origins = [origin.strip() for origin in value.split(",") if origin.strip()]
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError('it takes "*" or origins such as "https://example.org", without a path')
    return ",".join(origins)


Devices = Annotated[str, AfterValidator(_known_devices)]
HardToGuess = Annotated[SecretStr, AfterValidator(_hard_to_guess)]
RateLimits = Annotated[str, AfterValidator(_rates)]
Quotas = Annotated[str, AfterValidator(_quotas)]
RedisUrl = Annotated[SecretStr, AfterValidator(_a_redis)]
WebAddress = Annotated[str, AfterValidator(_an_address)]
Networks = Annotated[str, AfterValidator(_networks)]
Origins = Annotated[str, AfterValidator(_whole_origins)]
