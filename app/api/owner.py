"""Whose a stored thing is."""

from __future__ import annotations

from fastapi import Request

from app.storage.glossaries import ANONYMOUS


def owner_of(request: Request) -> str:
    """The name of the caller whose key was accepted (`request.state.caller`); without keys all are one."""
    caller = getattr(request.state, "caller", None)
    return str(getattr(caller, "name", ANONYMOUS))
