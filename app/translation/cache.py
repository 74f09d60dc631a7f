"""Translations of whole sentences that were asked for before, the latest used of them, within so many bytes."""

from __future__ import annotations

from collections import OrderedDict

from app.engine.jobs import Translation, TranslationJob

# Of the model, its version, and all that was asked: a tuple of values that are compared, so that no two are mistaken
# for each other.
Key = tuple[str, int, TranslationJob]
_ENTRY_BYTES = 2000  # what the objects of one entry take beside its texts, measured
_TOKEN_BYTES = 200
_CHARACTER_BYTES = 4


class Cache:
    """max_bytes 0 keeps nothing."""

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._kept: OrderedDict[Key, tuple[Translation, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Translation | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: Key, translation: Translation) -> None:
        size = _size(key, translation)
        if size > self.max_bytes:
            return
        if key in self._kept:
            self.bytes -= self._kept.pop(key)[1]
        self._kept[key] = translation, size
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.bytes -= freed


def _size(key: Key, translation: Translation) -> int:
    job = key[2]
    required = (form for forms in job.required for form in forms)
    texts = (job.text, job.prefix, translation.text, *translation.alternatives, *required)
    parts = len(translation.tokens or ()) + len(translation.alignment or ())
    return _ENTRY_BYTES + _TOKEN_BYTES * parts + _CHARACTER_BYTES * sum(map(len, texts))
