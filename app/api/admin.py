"""Who may change what is loaded: whoever has the key of PARLANCE_ADMIN_KEY, or one of the scope admin."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.exceptions import HTTPException

from app.access.errors import ScopeMissing
from app.api.access import charge, given_keys
from app.api.services import ServicesDependency

_OFF = "Models cannot be changed here: start the server with PARLANCE_ADMIN_KEY to allow it."
_USE = "This key may use models and not change them: ask whoever runs the server for one of the scope admin."
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
    """403 where nobody has such a key, or this one may not; 401 where it is not given rightly."""
    if not services.gate.has_admin():
        raise HTTPException(403, _OFF)
    may = services.gate.admin(given_keys(request, {}, ()))
    if may is None:
        raise ScopeMissing(_USE)
    if not may:
        await charge(request, 1, 0)  # whoever tries keys does it at the pace of all others
        raise HTTPException(401, _WRONG, headers={"WWW-Authenticate": 'Bearer realm="parlance"'})


AdminDependency = Depends(admin)
