"""Whose a stored thing is."""

from __future__ import annotations

from fastapi import Request

from app.api.access import caller_of


def owner_of(request: Request) -> str:
    """The name of the key that was accepted; all who ask without one are one."""
    return caller_of(request).name
