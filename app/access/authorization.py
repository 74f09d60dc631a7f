"""Admits or refuses a request: keys -> a caller -> what the request costs -> charged or refused."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from app.access.key_file import ANONYMOUS, Caller, KeyRing
from app.access.memory_store import Charge, ChargeResult, UsageStore
from app.access.rate_limits import MAX_COUNT, Quota, Rate, Window, period_ends_in_s
from app.engine.errors import EngineError, InvalidRequest


class KeyMissing(EngineError):
    code = "key_missing"


class KeyWrong(EngineError):
    code = "key_wrong"


class ScopeMissing(EngineError):
    """The key is known, and not for this."""

    code = "scope_missing"


class LimitReached(EngineError):
    """Everything that there is for now; more comes in `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(LimitReached):
    code = "rate_limited"


class QuotaExceeded(LimitReached):
    code = "quota_exceeded"


@lru_cache(maxsize=4096)
def address_id(host: str) -> str:
    """An id of an address under which it is counted, from which nobody reads the address at a glance. Addresses that
    are none (of a Unix socket, or none at all) are one caller."""
    return "address-" + hashlib.blake2b(_address_network(host).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _address_network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


_USAGE_QUOTA = Quota(MAX_COUNT, "month")  # of a key without a quota per month: for its usage


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """Characters of this calendar month (UTC). limit: None without one."""

    characters: int
    limit: int | None


class Verdict(NamedTuple):
    """windows: where the caller stands with each of its rates. refusal: what to answer instead."""

    windows: tuple[Window, ...] = ()
    refusal: EngineError | None = None


class AccessControl:
    """rates: of each address without a key, and of each key without its own. quotas: of each key without its own.
    keys_used: whether keys matter at all; without a keys file everything is open, and the admin key only opens more."""

    def __init__(
        self,
        counts: UsageStore,
        keys: KeyRing,
        *,
        keys_used: bool,
        key_required: bool = True,
        rates: Sequence[Rate] = (),
        quotas: Sequence[Quota] = (),
    ) -> None:
        self._counts, self._keys = counts, keys
        self._keys_used, self.key_required = keys_used, keys_used and key_required
        self._rates, self._quotas = tuple(rates), tuple(quotas)
        self.keys_used = keys_used
        self.idle = not keys_used and not rates  # nobody has to be known

    def caller(self, keys: Iterable[str], place: str) -> Caller:
        """Whoever has one of these keys. place: where to send one, for the sentence."""
        given = False
        for key in keys:
            given = True
            if (found := self._keys.find(key)) is not None:
                return found
        if not self._keys_used or not (given or self.key_required):
            return ANONYMOUS
        if given:
            raise KeyWrong(f"Invalid API key: this server does not know it, or not any more; send a valid one {place}.")
        raise KeyMissing(f"This server needs an API key: send yours {place}; whoever runs the server gives them out.")

    def admin(self, keys: Iterable[str]) -> bool | None:
        """Whether one of these keys opens what changes the server; None: no key does, or one that may not."""
        found = [caller for key in keys if (caller := self._keys.find(key)) is not None]
        if any("admin" in caller.scopes for caller in found):
            return True
        return None if found else False

    def has_admin(self) -> bool:
        return self._keys.has_admin()

    async def charge(self, caller: Caller, host: str, requests: int, characters: int) -> Verdict:
        """Takes the cost of one request, or refuses it and takes nothing. host: the client's address."""
        rates, quotas = self._rates if caller.rates is None else caller.rates, self._of(caller)
        if not rates and not quotas:
            return Verdict()
        for rate in rates:
            if requests > rate.requests:
                raise InvalidRequest(
                    f"This request has {requests:,} texts, each of which counts; at most {rate.requests:,} go into one"
                    f" {rate.unit}. Send them in several."
                )
        who = caller.key_id or address_id(host)
        taken = await self._counts.take(Charge(who, rates, requests, quotas, characters))
        return Verdict(taken.windows, None if taken.charged else _refusal(taken, requests, quotas, characters))

    async def give_back(self, caller: Caller, characters: int) -> None:
        """What was not answered costs no characters."""
        if characters and (quotas := self._of(caller)):
            await self._counts.give_back(caller.key_id, quotas, characters)

    async def usage(self, caller: Caller) -> KeyUsage:
        """What the caller's key has taken in this month; without a key nothing is counted."""
        limits = [each.characters for each in self._of(caller) if each.period == "month" and each is not _USAGE_QUOTA]
        if not caller.key_id:
            return KeyUsage(0, None)
        return KeyUsage(await self._counts.characters(caller.key_id, "month"), limits[0] if limits else None)

    async def close(self) -> None:
        await self._counts.close()

    def _of(self, caller: Caller) -> tuple[Quota, ...]:
        if not caller.key_id:
            return ()
        quotas = self._quotas if caller.quotas is None else caller.quotas
        return quotas if any(each.period == "month" for each in quotas) else (*quotas, _USAGE_QUOTA)


def _refusal(taken: ChargeResult, requests: int, quotas: Sequence[Quota], characters: int) -> EngineError:
    waits = [(window.wait_s(requests), window.rate) for window in taken.windows]
    wait_s, rate = max(waits, key=lambda each: each[0], default=(0, Rate(0, "second")))
    if wait_s:
        return RateLimited(
            f"That is more than {rate.requests:,} requests per {rate.unit}; try again in {wait_s:,} s.",
            retry_after_s=wait_s,
        )
    quota, have = next(
        (quota, have)
        for quota, have in zip(quotas, taken.characters, strict=True)
        if have + characters > quota.characters
    )
    return QuotaExceeded(
        f"This key's quota is {quota.characters:,} characters per {quota.period}, of which"
        f" {max(0, quota.characters - have):,} are left; this request has {characters:,}. The next {quota.period}"
        " begins at 00:00 UTC.",
        retry_after_s=period_ends_in_s(quota.period, taken.now_s),
    )
