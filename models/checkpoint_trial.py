"""Reads checkpoints on trial, in a process whose end costs nothing.

Tokenizers are read by a library in C++, and a stranger's file may crash it, take its memory or keep it busy without
end. `python -m models.checkpoint_trial` reads the path of a folder from each line of its input (in hexadecimal), reads
config.json, the header of the weights and the tokenizers, and answers with a line: null, or the problem in a sentence.
Its memory and its time for each folder are limited; `app.engine.registry.checkpoint_trials` starts it. Checksums are
left to the caller, which has to compare them with the bytes that it reads itself."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError

MOST_BYTES = 4_000_000_000  # of address space; a vocabulary of a million pieces takes a tenth of that
MOST_CPU_S = 60  # for one folder; an OPUS-MT translator takes 0.2


def problem_of(folder: Path) -> str | None:
    """Why the folder cannot be a checkpoint, in a sentence; None if all of it but the checksums is sound."""
    try:
        config = checkpoints.read_config(folder)
        checkpoints.check_weights_header(folder, config)
        checkpoints.read_tokenizers(folder, config)
        checkpoints.read_demo_card(folder)
    except CheckpointError as error:
        return str(error)
    except MemoryError:
        return f"{folder} takes more memory to read than a checkpoint may; the model was not loaded."
    except Exception as error:
        return f"{folder} cannot be read ({type(error).__name__}); the model was not loaded."
    return None


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + MOST_CPU_S, -1))
        answers.write(json.dumps(problem_of(Path(os.fsdecode(bytes.fromhex(line.strip()))))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
