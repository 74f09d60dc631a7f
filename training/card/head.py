"""The head of a model card, which the Hugging Face Hub reads."""

from __future__ import annotations

import json
import re

from training.card.facts import CardFacts

KNOWN_LICENCES = re.compile(
    r"apache-2\.0|mit|cc0-1\.0|unlicense|(a|l)?gpl(-3\.0|-2\.0)?|mpl-2\.0|bsd(-[23]-clause)?|openrail"
    r"|cc-by(-nc)?(-sa|-nd)?-[34]\.0"
)  # names that the Hub has a page for; others are "other" there, with a name of their own


def head(facts: CardFacts) -> str:
    """YAML. Its texts are written as JSON's, which YAML reads alike: a language `no` is no truth value then."""
    lines = ["---"]
    if facts.licence:
        known = KNOWN_LICENCES.fullmatch(facts.licence.lower())
        lines += [f"license: {facts.licence.lower()}"] if known else ["license: other", _text("license_name", facts)]
    if facts.languages:
        lines += ["language:", *(f"- {json.dumps(code.partition('-')[0].lower())}" for code in facts.languages)]
    if facts.task:
        lines.append(f"pipeline_tag: {facts.task}")
    return "\n".join([*lines, "library_name: parlance", "---"])


def _text(name: str, facts: CardFacts) -> str:
    return f"{name}: {json.dumps(facts.licence, ensure_ascii=False)}"
