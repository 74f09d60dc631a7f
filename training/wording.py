"""How sentences count."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """ "1 epoch", "2,000 epochs", "0.5 minutes": for nouns whose plural ends in s."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"
