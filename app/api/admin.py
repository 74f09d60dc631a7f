"""Who may change what is loaded: whoever has the key of PARLANCE_ADMIN_KEY."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.exceptions import HTTPException

from app.api.services import ServicesDependency

_OFF = "Models cannot be changed here: start the server with PARLANCE_ADMIN_KEY to allow it."
_WRONG = "This needs the server's admin key: send it as Authorization: Bearer KEY, or as X-Api-Key: KEY."

# For the documentation alone, whose pages then ask for the key; the headers are read as bytes below.
_bearer = HTTPBearer(auto_error=False, description="The key of PARLANCE_ADMIN_KEY.")
_header = APIKeyHeader(name="X-Api-Key", auto_error=False, description="The key of PARLANCE_ADMIN_KEY.")


async def admin(
    request: Request,
    services: ServicesDependency,
    _documented: Annotated[object, Security(_bearer)] = None,
    _also: Annotated[object, Security(_header)] = None,
) -> None:
    """403 where there is no key, 401 where it is not given rightly. Compared in constant time, over all candidates."""
    if not services.admin_key:
        raise HTTPException(403, _OFF)
    key = services.admin_key.encode()
    matches = [hmac.compare_digest(given, key) for given in _given(request)]
    if not any(matches):
        raise HTTPException(401, _WRONG, headers={"WWW-Authenticate": 'Bearer realm="parlance"'})


def _given(request: Request) -> list[bytes]:
    """Every key of the request, as bytes: a header may hold anything."""
    keys = []
    for name, value in request.headers.raw:
        if name == b"x-api-key":
            keys.append(value.strip())
        elif name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                keys.append(rest.strip())
    return keys


AdminDependency = Depends(admin)
