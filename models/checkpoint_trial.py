"""Reads checkpoints on trial, in a process whose end costs nothing.

Tokenizers are read by a library in C++, and a stranger's file may crash it, take its memory or keep it busy without
end. `CheckpointTrials` starts `python -m models.checkpoint_trial` before it lets its caller read a folder; the child
reads config.json, the header of the weights and the tokenizers. One that crashes, hangs or takes too much memory costs
the folder that it was reading, which is refused by name. Checksums are left to the caller, which has to compare them
with the bytes that it reads itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from models import checkpoint as checkpoints
from models.checkpoint import CONFIG, MOST_JSON_BYTES, CheckpointError, require_file, sha256
from models.child_process import BlockingChild, ParentChannel, end_in_words, limit_cpu, limit_process

MOST_BYTES = 4_000_000_000  # without the weights, which are mapped; a vocabulary of a million pieces takes a tenth
MOST_CPU_S = 60  # for one folder; an OPUS-MT translator takes 0.2
MOST_S = 120.0  # without an answer, on a machine that is busy otherwise; the child has half of that of the CPU
_END_S = 5.0  # of a child that has closed its socket
_LONGEST_ANSWER = 1_000_000  # bytes
_DECODE = msgspec.msgpack.Decoder(list[str | None]).decode


class CheckpointTrials:
    """A checkpoint that was sound is not tried again in the lifetime of this object, wherever it lies and however often
    it is loaded: config.json has the checksums of the other files. Blocking: call it in a thread.

    limit_s: for one folder. program: of the child."""

    def __init__(self, limit_s: float = MOST_S, program: Sequence[str] = ("-m", "models.checkpoint_trial")) -> None:
        self.limit_s, self._program = limit_s, tuple(program)
        self._sound: set[str] = set()  # SHA-256 of config.json
        self._lock = threading.Lock()  # of the child and what follows
        self._child: BlockingChild[str | None] | None = None
        self._asked: list[tuple[Path, str]] = []  # of the child, in the order of its answers, with the SHA-256
        self._answers: dict[tuple[Path, str], str | None] = {}  # its problem, or None

    def begin(self, folders: Sequence[Path]) -> None:
        """Starts the child on the folders that `require` will be called for, in this order."""
        with self._lock:
            self._start([trial for folder in folders if (trial := (folder, _digest(folder)))[1] not in self._sound])

    def require(self, folder: Path) -> None:
        """Raises CheckpointError unless the child has read the folder, or another with the same config.json."""
        trial = folder, digest = folder, _digest(folder)
        with self._lock:
            if digest in self._sound:
                return
            if trial not in self._asked and trial not in self._answers:
                self._start([trial])
            while trial not in self._answers:
                self._take_answer()
            if (problem := self._answers.pop(trial)) is not None:
                raise CheckpointError(problem)
            if digest:
                self._sound.add(digest)

    def _start(self, trials: list[tuple[Path, str]]) -> None:
        self._end()
        if trials:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")}
            self._child, self._asked = BlockingChild(self._program, _DECODE, environment, _LONGEST_ANSWER), trials
            self._child.send([os.fsencode(folder) for folder, _ in trials])

    def _end(self) -> None:
        child, self._child, self._asked = self._child, None, []
        if child is not None:
            child.end()

    def _take_answer(self) -> None:
        """The answer for the first folder, which may be the child's end; another child then reads the rest."""
        assert self._child is not None
        trial, rest = self._asked[0], self._asked[1:]
        try:
            self._answers[trial], self._asked = self._child.receive(self.limit_s), rest
            if not rest:
                self._end()
        except (TimeoutError, EOFError) as error:
            how = "kept its reader busy for too long"
            if isinstance(error, EOFError):
                how = f"ended its reader ({end_in_words(self._child.end(_END_S))})"
            self._answers[trial] = f"{trial[0]} {how}: no checkpoint does; the model was not loaded."
            self._start(rest)


def _digest(folder: Path) -> str:
    """Of config.json; "" where there is none that a checkpoint may have, for which the child refuses the folder."""
    try:
        require_file(folder / CONFIG, MOST_JSON_BYTES)
        return sha256(folder / CONFIG)
    except (OSError, ValueError):
        return ""


def problem_of(folder: Path) -> str | None:
    """Why the folder cannot be a checkpoint, in a sentence; None if all of it but the checksums is sound."""
    try:
        config = checkpoints.read_config(folder)
        checkpoints.check_weights_header(folder, config)
        checkpoints.read_tokenizers(folder, config)
        checkpoints.read_demo_card(folder)
        checkpoints.read_notice_record(folder)
        checkpoints.read_stand_ins(folder, config)
    except CheckpointError as error:
        return str(error)
    except MemoryError:
        return f"{folder} takes more memory to read than a checkpoint may; the model was not loaded."
    except Exception as error:
        return f"{folder} cannot be read ({type(error).__name__}); the model was not loaded."
    return None


def main() -> None:
    limit_process(MOST_BYTES, maps_files=True)
    channel = ParentChannel[bytes, str | None](msgspec.msgpack.Decoder(list[bytes]).decode)
    for folder in channel.each():
        limit_cpu(MOST_CPU_S)
        channel.send([problem_of(Path(os.fsdecode(folder)))])


if __name__ == "__main__":
    main()
