"""CTranslate2's `translate_file` from text to text, as a process: prints the seconds of the call, loading left out.

python -m benchmarks.peers.ctranslate2_file MODEL PIECES IN OUT SETTING

SETTING is the JSON object of `benchmarks.file_translation`.
"""

from __future__ import annotations

import json
import sys
import time

import ctranslate2
import sentencepiece


def main(model: str, pieces: str, source: str, out: str, setting: str) -> None:
    """SentencePiece splits and joins in C++, called by CTranslate2 for each line, as its documentation shows."""
    options = json.loads(setting)
    translator = ctranslate2.Translator(
        model,
        device="cpu",
        compute_type=options["compute_type"],
        inter_threads=options["inter"],
        intra_threads=options["intra"],
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=pieces)
    started = time.perf_counter()
    translator.translate_file(
        source,
        out,
        max_batch_size=options["batch"],
        batch_type=options["batch_type"],
        beam_size=options["beam"],
        max_input_length=0,
        source_tokenize_fn=lambda line: processor.encode(line, out_type=str),
        target_detokenize_fn=processor.decode,
    )
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
