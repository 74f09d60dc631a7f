"""The kinds of stand-ins that a loaded model copies (`models.stand_ins`), tried by its own translations."""

from __future__ import annotations

from app.engine.interface import TranslationOptions, TranslationRequest
from app.translation.steps import Steps, Translate
from models.stand_ins import KINDS, carriers, copied_kinds, copied_once, stand_ins

__all__ = ["KINDS", "calibrated", "copied_once", "stand_ins"]


def calibrated(options: TranslationOptions) -> Steps[tuple[str, ...]]:
    """The kinds of stand-ins that the model copies, those that it copies best first."""
    plain = TranslationOptions(options.source_language, options.target_language, options.model)
    tried = carriers(options.source_language)
    results = yield [Translate(TranslationRequest(carrier.sentence, plain)) for carrier in tried]
    return copied_kinds(tried, [result.text for result in results])
