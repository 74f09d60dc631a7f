"""Identifies callers by their API keys and charges their rate limits and quotas."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.access.key_file import ANONYMOUS, Caller, KeyRing
from app.access.rate_limits import MAX_COUNT, Charge, ChargeResult, MemoryStore, Quota, Rate, Window, period_ends_in_s
from app.errors import EngineError, InvalidRequest, RetryLater


class KeyMissing(EngineError, code="key_missing", status=401):
    """The server requires a key and the request has none."""


class KeyWrong(EngineError, code="key_wrong", status=401):
    """The key is unknown or has been removed."""


class ScopeMissing(EngineError, code="scope_missing", status=403):
    """The key is valid but lacks the scope for this request."""


class RateLimited(RetryLater, code="rate_limited"):
    """A rate limit is exhausted. rate: the one that takes longest to have room."""

    def __init__(self, message: str, *, retry_after_s: int, rate: Rate) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.rate = rate


class QuotaExceeded(RetryLater, code="quota_exceeded"):
    """A quota is exhausted until its period ends. remaining: characters that are left of it."""

    def __init__(self, message: str, *, retry_after_s: int, quota: Quota, remaining: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.quota, self.remaining = quota, remaining


_USAGE_QUOTA = Quota(MAX_COUNT, "month")  # counts the usage of keys without a monthly quota


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """Characters used in the current calendar day or month (UTC), whichever quota has fewer left; of the month, and
    limit None, if the key has no quota."""

    characters: int
    limit: int | None


class AccessControl:
    """Identifies and charges callers. rates, quotas: of keys without their own; the rates also of each address without
    a key. keys_used: False without a keys file; all requests are then admitted, and the admin key only adds rights."""

    def __init__(
        self,
        counts: MemoryStore,
        keys: KeyRing,
        *,
        keys_used: bool,
        key_required: bool = True,
        rates: Sequence[Rate] = (),
        quotas: Sequence[Quota] = (),
    ) -> None:
        self._counts, self._keys = counts, keys
        self._rates, self._quotas = tuple(rates), tuple(quotas)
        self.keys_used, self.key_required = keys_used, keys_used and key_required
        self.idle = not keys_used and not rates  # callers need not be identified

    def caller(self, keys: Iterable[str], place: str) -> Caller:
        """The caller of the first known key. place: where clients send keys, for the error message."""
        keys = list(keys)
        for key in keys:
            if (caller := self._keys.find(key)) is not None:
                return caller
        if not self.keys_used or not (keys or self.key_required):
            return ANONYMOUS
        if keys:
            raise KeyWrong(f"Invalid API key: this server does not know it, or not any more; send a valid one {place}.")
        raise KeyMissing(f"This server needs an API key: send yours {place}; whoever runs the server gives them out.")

    def admin(self, keys: Iterable[str]) -> bool | None:
        """True if one of the keys has the admin scope, False if no key is known, None if known keys lack the scope."""
        callers = [caller for key in keys if (caller := self._keys.find(key)) is not None]
        if any("admin" in caller.scopes for caller in callers):
            return True
        return None if callers else False

    def has_admin(self) -> bool:
        return self._keys.has_admin()

    async def charge(
        self, caller: Caller, host: str, requests: int, characters: int
    ) -> tuple[Sequence[Window], EngineError | None]:
        """Charges a request or refuses it whole; returns rate windows and the error or None. host: client address."""
        rates, quotas = self._rates if caller.rates is None else caller.rates, self._quotas_of(caller)
        if not rates and not quotas:
            return (), None
        for rate in rates:
            if requests > rate.requests:
                raise InvalidRequest(
                    f"This request has {requests:,} texts, each of which counts; at most {rate.requests:,} go into one"
                    f" {rate.unit}. Send them in several."
                )
        charge = Charge(caller.key_id or address_id(host), rates, requests, quotas, characters)
        result = await self._counts.take(charge)
        return result.windows, None if result.charged else _refusal(charge, result)

    async def give_back(self, caller: Caller, characters: int) -> None:
        """Refunds the characters of a failed request."""
        if characters and (quotas := self._quotas_of(caller)):
            await self._counts.give_back(caller.key_id, quotas, characters)

    async def usage(self, caller: Caller) -> KeyUsage:
        """The usage that the quota that binds counts; callers without a key are not counted."""
        if not caller.key_id:
            return KeyUsage(0, None)
        usages = [
            (quota, await self._counts.characters(caller.key_id, quota.period)) for quota in self._quotas_of(caller)
        ]
        quota, characters = min(usages, key=lambda usage: usage[0].characters - usage[1])
        return KeyUsage(characters, None if quota is _USAGE_QUOTA else quota.characters)

    async def close(self) -> None:
        await self._counts.close()

    def _quotas_of(self, caller: Caller) -> tuple[Quota, ...]:
        if not caller.key_id:
            return ()
        quotas = self._quotas if caller.quotas is None else caller.quotas
        return quotas if any(quota.period == "month" for quota in quotas) else (*quotas, _USAGE_QUOTA)


def _refusal(charge: Charge, result: ChargeResult) -> EngineError:
    waits = [(window.wait_s(charge.requests), window.rate) for window in result.windows]
    wait_s, rate = max(waits, key=lambda wait: wait[0], default=(0, Rate(0, "second")))
    if wait_s:
        return RateLimited(
            f"That is more than {rate.requests:,} requests per {rate.unit}; try again in {wait_s:,} s.",
            retry_after_s=wait_s,
            rate=rate,
        )
    quota, used = next(
        (quota, used)
        for quota, used in zip(charge.quotas, result.characters, strict=True)
        if used + charge.characters > quota.characters
    )
    remaining = max(0, quota.characters - used)
    return QuotaExceeded(
        f"This key's quota is {quota.characters:,} characters per {quota.period}, of which"
        f" {remaining:,} are left; this request has {charge.characters:,}. The next"
        f" {quota.period} begins at 00:00 UTC.",
        retry_after_s=period_ends_in_s(quota.period, result.now_s),
        quota=quota,
        remaining=remaining,
    )


@lru_cache(maxsize=4096)
def address_id(host: str) -> str:
    """The id that an address is counted under: a hash of it, or of its /64 for IPv6; one id for all other hosts."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        network = str(address if address.version == 4 else ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    except ValueError:
        network = "unknown"
    return "address-" + hashlib.blake2b(network.encode(), digest_size=12).hexdigest()
