"""The engine's decoder of one checkout, for `benchmarks.against`: a JSON line in, a JSON line out.

Runs as a file, with PYTHONPATH at the checkout, and imports that checkout's `benchmarks`: it may use nothing newer than
the oldest checkout in the race.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import ours, shapes
from benchmarks.processes import Work

SOURCE_TOKENS = 20
LEAST_S = 0.5


def measure(engine: Any, shape: shapes.Shape, beam: int, batch: int, new_tokens: int) -> float:
    """Tokens per second of this process' CPU time, of all rows together; a beam's hypotheses count once."""
    sources = tuple(tuple(source) for source in shapes.random_sources(shape, batch, SOURCE_TOKENS))
    work = Work(sources, (new_tokens,) * batch, beam, batch)
    tokens, started = 0, time.process_time()
    while (seconds := time.process_time() - started) < LEAST_S:
        tokens += sum(len(written) for written in engine.translate(work))
    return tokens / seconds


def main() -> None:
    engines: dict[str, Any] = {}
    for line in sys.stdin:
        case = json.loads(line)
        shape = shapes.SHAPES[case["shape"]]
        if case.get("write"):
            shapes.write_checkpoint(Path(case["folder"]), shape)
            answer: float | None = None
        else:
            if shape.name not in engines:
                engines[shape.name] = ours.Parlance(case["folder"], 1, 1, case["precision"]).open()
                measure(engines[shape.name], shape, 1, 1, 4)
            answer = measure(engines[shape.name], shape, case["beam"], case["batch"], case["new_tokens"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
