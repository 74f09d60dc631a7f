"""What each element is to a sentence. Elements that stand in neither list are inline, as browsers take unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"\w+")
# A tag of these ends a text: what stands before and behind it is translated apart.
BLOCKS = frozenset(
    _NAME.findall(
        "address article aside base blockquote body br caption center col colgroup dd details dialog dir div dl dt "
        "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li "
        "link main menu meta nav noscript ol optgroup option p param pre search section select summary table tbody td "
        "template tfoot th thead title tr ul"
    )
)
VOID = frozenset(
    _NAME.findall("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
)
# Not for people to read, or not as running text: a sentence around them reads as if they were not there.
HIDDEN = frozenset(
    _NAME.findall(
        "script style svg math textarea iframe noembed noframes xmp plaintext object audio video canvas applet"
    )
)
# Words of a machine within a sentence: they come back to the letter.
VERBATIM = frozenset({"code", "kbd", "samp", "var", "tt"})
# An end tag may be left out: the next of their kind ends them.
_ENDED_BY = {
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "option": frozenset({"option", "optgroup"}),
    "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}),
    "th": frozenset({"td", "th", "tr"}),
    "p": BLOCKS - {"br"},
}


def ends(started: str, element: str) -> bool:
    """Whether a start tag of `started` ends an open `element` whose end tag was left out."""
    return started in _ENDED_BY.get(element, ())


def kept_by_author(attributes: Iterable[tuple[str, str | None]]) -> bool:
    """translate="no", or the class "notranslate"."""
    for name, value in attributes:
        if name == "translate" and (value or "").strip().lower() == "no":
            return True
        if name == "class" and "notranslate" in (value or "").lower().split():
            return True
    return False
