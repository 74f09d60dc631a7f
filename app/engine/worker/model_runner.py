"""The networks of one device: loads, prepares and unloads them for decoding."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import torch

from app.engine.protocol.messages import Load, plain_name
from models import checkpoint as checkpoints
from models.backends.memory import tensor_bytes
from models.backends.select import Network, Selection, candidates, fastest, select, step_ms
from models.backends.torch.cuda_graph import Graphed, Recordable
from models.backends.torch.cuda_report import clause
from models.decoding.decoder import Decoder
from models.decoding.options import TokenRules
from models.interface import Decodable, Precision
from models.networks.loading import code_warning, load_network
from models.networks.transformer import Transformer
from models.tokenizer.word_parts import WordParts, word_parts

log = logging.getLogger(__name__)

MOST_SLOTS = 512  # a step of more rows takes longer than streams should wait for a token
LEAST_SLOTS = 16  # one request of 16 hypotheses; a server of fewer is better told so
RESERVE = 0.10  # of the device's memory: prefills, inspections, CUDA's libraries, other programs
LOGITS = 4  # copies of fp32 logits a slot: of a step of all rows, of all smaller ones, and twice for the choice
MIB, GIB = 1 << 20, 1 << 30
CPU_SLOTS = 64  # rows beyond that make a CPU's step slower, and no request faster


class PreparedModel(NamedTuple):
    """A checkpoint in memory. network: as trained, for inspection. selection: None until it is on its device.
    warning: about the network's code."""

    network: Network
    selection: Selection | None
    checkpoint: checkpoints.Checkpoint
    parts: WordParts | None = None
    warning: str | None = None


def new_decoder(
    decodable: Decodable, config: checkpoints.CheckpointConfig, rules: TokenRules, slots: int, parts: WordParts | None
) -> Decoder:
    return Decoder(
        decodable,
        rules,
        slots=slots,
        source_length=max(1, config.max_source_tokens),
        target_length=target_length(config),
        parts=parts,
    )


def target_length(config: checkpoints.CheckpointConfig) -> int:
    """Positions of a slot's cache: the start, a given prefix, and as many new tokens."""
    return len(config.target_prefix) + 2 * config.max_new_tokens


def slot_bytes(decodable: Decodable, config: checkpoints.CheckpointConfig, vocabulary: int) -> int:
    """Device bytes of one more slot: the caches and arrays that a decoder of two slots has beyond one of a single slot,
    and logits."""
    rules = TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)
    one, two = (tensor_bytes(new_decoder(decodable, config, rules, slots, None), decodable.device) for slots in (1, 2))
    return two - one + LOGITS * vocabulary * torch.float32.itemsize


class LoadedModel:
    """One loaded network with its decoder. beam: the usual width, for which CUDA graphs are recorded at load. gradual:
    see `ModelQueue`. precision: such as "bf16" or "int8 native". reason: the backend and the reason for it."""

    def __init__(self, prepared: PreparedModel, slots: int, beam: int = 1) -> None:
        selection = prepared.selection
        assert selection is not None, "the network is on its device"
        self.network, self.decodable, self.precision = prepared.network, selection.decodable, selection.label
        self.reason = "; ".join(filter(None, [f"{selection.backend}: {selection.reason}", prepared.warning]))
        self.config = config = prepared.checkpoint.config
        self.slots, self._parts = slots, prepared.parts
        self._beam = min(beam, slots) if config.max_source_tokens else 1
        # more rows make a step slower; but a lyrics model's first text is not its last, and its steps are short
        self.gradual = self.decodable.device.type == "cpu" and config.max_source_tokens > 0
        self.rules = TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)
        if isinstance(self.network, Transformer):
            # Now, because inspections and steps may be in two threads: of two that grow the table at once, the one that
            # needs fewer positions could leave its own.
            self.network.position_vectors(max(config.max_source_tokens, target_length(config)))
        self.decoder = self._new_decoder()

    def _new_decoder(self) -> Decoder:
        decoder = new_decoder(self.decodable, self.config, self.rules, self.slots, self._parts)
        began = time.monotonic()
        if graphs := decoder.warm_up([self._beam], sampling=not self.config.max_source_tokens):
            log.info("%d CUDA graphs were recorded in %.1f s", graphs, time.monotonic() - began)
        return decoder

    def reset(self) -> None:
        """Recreates the slots after a failed step. The old ones are freed first: both together may not fit."""
        del self.decoder
        self.decoder = self._new_decoder()


class DeviceUnusable(RuntimeError):
    """The device cannot compute. The message is a clause with CUDA's own reason."""

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(reason)
        self.device = device


class ModelRunner:
    """The models of one device. threads: 0: torch's default. slots: of each model; 0: 64 on a CPU, and on a GPU from
    its free memory. precision: a `Precision` or "auto". name: of the device in logs, if torch's differs. memory: () ->
    free and total bytes; None: the GPU's own. Raises DeviceUnusable."""

    def __init__(
        self,
        device: str,
        threads: int,
        slots: int,
        precision: str = "fp32",
        beam: int = 1,
        *,
        name: str = "",
        memory: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.device, self.precision, self.beam = torch.device(device), precision, beam
        self.name = name or str(self.device)
        self.slots = slots or (CPU_SLOTS if self.device.type == "cpu" and memory is None else 0)
        self._memory = memory or self._cuda_memory
        if self.device.type == "cuda":  # graphs are captured, and pinned memory is registered, on the current device
            try:
                self.check()
                torch.cuda.set_device(self.device)
            except (RuntimeError, AssertionError) as error:
                raise DeviceUnusable(self.name, clause(error)) from error
        self.models: dict[str, LoadedModel] = {}
        self._fastest: dict[str, Precision] = {}  # measured precision by architecture

    def check(self) -> None:
        """Raises RuntimeError if the device is lost: some CUDA errors are permanent for the process."""
        torch.ones(1, device=self.device).item()

    def read(self, load: Load) -> PreparedModel:
        """The slow part of a load, safe in another thread: uses only the CPU and no running model. Reads the folder, or
        its pinned files if it has changed since the front end read it. Raises CheckpointError."""
        try:
            return self._read_folder(load.name, load.folder, load.files)
        except checkpoints.CheckpointError as error:
            if not load.pinned:
                raise
            with linked_folder(Path(load.folder).name, load.pinned) as folder:
                try:
                    prepared = self._read_folder(load.name, str(folder), load.files)
                except checkpoints.CheckpointError as broken:  # name the real folder in the message
                    raise checkpoints.CheckpointError(str(broken).replace(str(folder), load.folder)) from broken
            log.warning("%s as the server read it is loaded: %s", plain_name(load.name), error)
            return prepared

    def _read_folder(self, name: str, folder: str, files: Mapping[str, str] | None) -> PreparedModel:
        checkpoint = checkpoints.read(Path(folder))
        if files is not None and files != checkpoint.config.files:
            raise checkpoints.CheckpointError(f"{folder} has changed since the server read it: reload the model.")
        network = load_network(checkpoint)
        selection = self._select(name, network, checkpoint) if self.device.type == "cpu" else None
        parts = word_parts(checkpoint.tokenizers["target"]) if checkpoint.config.kind == "translator" else None
        return PreparedModel(network, selection, checkpoint, parts, code_warning(checkpoint, network))

    def install(self, name: str, prepared: PreparedModel, to_come: Sequence[Load] = ()) -> None:
        """Makes a read model available. Moves it to CUDA here: another thread would break a graph recording. to_come:
        models that this device loads next, which need memory too. Raises NoRoom."""
        free_bytes = self._memory()[0] if self.device.type == "cuda" else 0
        if prepared.selection is None:
            network: Network = cast(Any, prepared.network).to(self.device)
            selection = self._select(name, network, prepared.checkpoint)
            if self.device.type == "cuda":
                selection = replace(selection, decodable=Graphed(cast(Recordable, selection.decodable)))
            prepared = prepared._replace(network=network, selection=selection)
        slots = self.slots or self._slots_from_memory(name, prepared, to_come)
        self.models[name] = LoadedModel(prepared, slots, self.beam)
        if self.device.type == "cuda":
            taken = format_bytes(max(0, free_bytes - self._memory()[0]))
            log.info("%s takes %s of %s: weights, %d slots, graphs", plain_name(name), taken, self.name, slots)

    def _slots_from_memory(self, name: str, prepared: PreparedModel, to_come: Sequence[Load]) -> int:
        """The number of slots by the free memory of the device, which already holds the model's weights."""
        assert prepared.selection is not None
        config, vocabulary = prepared.checkpoint.config, prepared.checkpoint.tokenizers["target"].size
        size = slot_bytes(prepared.selection.decodable, config, vocabulary)
        self.release_memory()
        free_bytes, total_bytes = self._memory()
        budget = choose_slots(
            plain_name(name),
            self.name,
            slot_bytes=size,
            free_bytes=free_bytes,
            total_bytes=total_bytes,
            least=max(LEAST_SLOTS, self.beam),
            others=len(to_come),
            others_bytes=sum(weight_bytes(load) for load in to_come),
        )
        log.info("%s", budget.describe(plain_name(name), self.name))
        return budget.slots

    def _cuda_memory(self) -> tuple[int, int]:
        return torch.cuda.mem_get_info(self.device)

    def _select(self, name: str, network: Network, checkpoint: checkpoints.Checkpoint) -> Selection:
        """The backend in the configured precision, or in the fastest, which is measured once per architecture."""
        if self.precision == "auto":
            selection = self._fastest_selection(name, network, checkpoint)
        else:
            selection = select(network, cast(Precision, self.precision))
            log.info("%s computes in %s on %s", name, self.precision, self.name)
            if self.precision == "fp16" and self.device.type == "cpu":
                others = ", ".join(candidates(self.device))
                log.warning("fp16 is slow on CPUs: set PARLANCE_PRECISION to auto, the fastest of %s here", others)
        log.info("%s runs in %s: %s", name, selection.backend, selection.reason)
        return selection

    def _fastest_selection(self, name: str, network: Network, checkpoint: checkpoints.Checkpoint) -> Selection:
        shape = json.dumps(checkpoint.config.architecture, sort_keys=True)
        if known := self._fastest.get(shape):
            try:  # run a step too: an edited network may not support the precision that its architecture does
                selection = select(network, known)
                step_ms(selection.decodable, rows=1, steps=1)
            except Exception as error:
                log.warning("%s fails in %s, in which its like computes: %s", name, known, error)
            else:
                log.info("%s computes in %s on %s, as its like does", name, known, self.name)
                return selection
        selection, times = fastest(network, self.device)
        used = next(iter(times))
        self._fastest.setdefault(shape, used)
        shown = ", ".join(f"{precision} {ms:.2f} ms" for precision, ms in times.items())
        log.info("%s computes in %s on %s (a step of 1 row and one of 16: %s)", name, used, self.name, shown)
        return selection

    def unload(self, name: str) -> None:
        """Frees a model; unknown names are ignored. The caller drops its own references first."""
        self.models.pop(name, None)
        self.release_memory()

    def release_memory(self) -> None:
        """Returns the CUDA allocator's cached memory to the device."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def weight_bytes(load: Load) -> int:
    """Device bytes of a model's weights: as trained, for inspection, and half as much again for decoding in 16 bits."""
    path = Path(load.pinned.get(checkpoints.WEIGHTS, Path(load.folder) / checkpoints.WEIGHTS))
    try:
        return path.stat().st_size * 3 // 2
    except OSError:  # it will not load either
        return 0


@contextmanager
def linked_folder(name: str, paths: Mapping[str, str]) -> Iterator[Path]:
    """A temporary folder of that name with symbolic links to the files."""
    with TemporaryDirectory(prefix="parlance-") as place:
        folder = Path(place) / name
        folder.mkdir()
        for file, path in paths.items():
            (folder / file).symlink_to(path)
        yield folder


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A checkpoint that was read, or its error. began: CLOCK_MONOTONIC seconds."""

    message: Load
    began: float
    prepared: PreparedModel | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, message: Load, read: Callable[[Load], PreparedModel]) -> LoadResult:
        """Reads in the calling thread."""
        began = time.monotonic()
        try:
            return cls(message, began, read(message))
        except Exception as error:
            return cls(message, began, error=error)


class ModelLoader:
    """A thread that reads checkpoints in turn. read: must not touch the scheduler's state. on_result: called in it."""

    def __init__(self, read: Callable[[Load], PreparedModel], on_result: Callable[[LoadResult], None]) -> None:
        self._read, self._on_result = read, on_result
        self._thread = ThreadPoolExecutor(1, "loading")
        self._last: Future[None] | None = None

    def begin(self, message: Load) -> None:
        self._last = self._thread.submit(lambda: self._on_result(LoadResult.of(message, self._read)))

    @property
    def busy(self) -> bool:
        return self._last is not None and not self._last.done()


# How many slots a model gets from the free memory of its GPU -----------------------------------------------------


class NoRoom(Exception):
    """The device has no memory for the fewest slots. Its message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class SlotBudget:
    """The slots of one model and what they were computed from. slot_bytes: caches and logits of one slot; free_bytes:
    with the model's weights in place; others_bytes: weights of the `others` models still to be loaded."""

    slots: int
    slot_bytes: int
    free_bytes: int
    total_bytes: int
    others: int = 0
    others_bytes: int = 0

    def describe(self, model: str, device: str) -> str:
        """One log line."""
        bound = f"at most {MOST_SLOTS}" if self.slots == MOST_SLOTS else "as many as fit"
        others = ""
        if self.others:
            plural = "s" * (self.others > 1)
            others = f", {self.others} more model{plural} to load ({format_bytes(self.others_bytes)} of weights)"
        return (
            f"{model}: {self.slots} slots of {self.slot_bytes / MIB:.2f} MiB on {device}"
            f" ({format_bytes(self.slots * self.slot_bytes)}); {format_bytes(self.free_bytes)} free,"
            f" {RESERVE:.0%} of {format_bytes(self.total_bytes)} kept in reserve{others}, {bound}"
        )


def choose_slots(
    model: str,
    device: str,
    *,
    slot_bytes: int,
    free_bytes: int,
    total_bytes: int,
    least: int = LEAST_SLOTS,
    others: int = 0,
    others_bytes: int = 0,
) -> SlotBudget:
    """Slots in multiples of 8 between `least` and MOST_SLOTS from an equal share of the free memory: of this model and
    each of the `others` that are still to be loaded. A share that is too small is exceeded up to the least, which may
    refuse a later model. Raises NoRoom."""
    room = free_bytes - int(RESERVE * total_bytes)
    share = (room - others_bytes) // (1 + others)
    slots = min(MOST_SLOTS, max(0, share) // slot_bytes // 8 * 8)
    if slots < least:
        slots = least
        if least * slot_bytes > room:
            raise NoRoom(
                f"{model} needs {least} slots of {slot_bytes / MIB:.2f} MiB on {device}, which has"
                f" {format_bytes(max(0, room))} for them ({format_bytes(free_bytes)} free, {RESERVE:.0%} of"
                f" {format_bytes(total_bytes)} kept in reserve): unload another model, end what else runs on this GPU,"
                " or use a larger one."
            )
    return SlotBudget(slots, slot_bytes, free_bytes, total_bytes, others, others_bytes)


def format_bytes(size_bytes: int) -> str:
    """Such as "824 MiB" or "4.6 GiB"."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / MIB:.0f} MiB"
