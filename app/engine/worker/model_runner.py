"""The only caller of torch: loads networks, prefills, steps, and looks inside them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from app.engine.protocol.inspection_messages import Align, Aligned, Attend, AttentionFindings, Walk
from app.engine.protocol.messages import Attention, Decode, Load, Look, Seen, Slice, Walked, plain_name
from app.engine.registry.pinned_files import linked_folder
from app.engine.worker import inspection
from app.engine.worker.inspection import AblationSearch
from app.engine.worker.inspection import torch_threads as threads_of
from models import checkpoint as checkpoints
from models.backends.native.fp32_recurrent import NativeRecurrent
from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import candidates, fastest
from models.backends.torch.cuda_graph import Graphed, Recordable
from models.decoding.decoder import Decoder, StepResult
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.attention_maps import Attentive
from models.inspection.head_selection import SelectionError
from models.interface import Network, Precision, Prompt
from models.networks.loading import load_network
from models.networks.transformer import Transformer
from models.tokenizer.word_parts import WordParts, word_parts

NO_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Whether less work at once could succeed where this failed."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


log = logging.getLogger(__name__)

REQUEST_FIELDS = {"masked": "mask_heads", "row": "qk"}  # fields of a request, by those of a choice


class CannotInspect(ValueError):
    """The network has nothing of the kind to show, or too much; the message says what to ask for instead, and
    `field` which choice of the request was wrong, if one was."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class LoadedModel:
    """One loaded network, made ready for decoding, and its slots. network: as it was trained, for looking inside.
    beam: the width of most searches, for which a GPU gets ready ahead of them. precision: what it decodes in, as people
    are told. look_threads: see `app.engine.worker.inspection`. parts: of a translator's words, for required terms.
    gradual: see `app.engine.worker.request_queue`."""

    def __init__(
        self,
        network: Any,
        decodable: Any,
        config: checkpoints.CheckpointConfig,
        slots: int,
        beam: int = 1,
        precision: str = "fp32",
        look_threads: int = 0,
        parts: WordParts | None = None,
    ) -> None:
        self.network, self.decodable, self.config, self.slots = network, decodable, config, slots
        self.precision, self.look_threads, self.parts = precision, look_threads, parts
        self.beam = min(beam, slots) if config.max_source_tokens else 1
        # more rows make a step longer; but a lyricist's first text is not its last, and its steps are short
        self.gradual = decodable.device.type == "cpu" and config.max_source_tokens > 0
        self.decoder = self._decoder()

    @property
    def rules(self) -> TokenRules:
        config = self.config
        return TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)

    def _decoder(self) -> Decoder:
        decoder = Decoder(
            self.decodable,
            self.rules,
            slots=self.slots,
            source_length=max(1, self.config.max_source_tokens),
            target_length=len(self.config.target_prefix) + 2 * self.config.max_new_tokens,
            parts=self.parts,
        )
        if self.decodable.device.type == "cuda":
            self.decodable.warm_up(decoder.state, sorted({1, self.beam}))
        return decoder

    def reset(self) -> None:
        """Forget every sequence: after a failed step nothing in the slots can be trusted. The old slots are freed
        before the new ones are made: both together may not fit."""
        del self.decoder
        self.decoder = self._decoder()

    def join(self, requests: Sequence[Decode]) -> None:
        self.decoder.join([(r.id, Prompt(tuple(r.source), tuple(r.prefix)), _options(r)) for r in requests])

    def step(self) -> StepResult:
        return self.decoder.step()

    def leave(self, request: int) -> None:
        self.decoder.leave(request)

    def look(self, request: Look) -> Seen | AblationSearch:
        """CannotInspect if the network does not have what is asked for, or the answer would hold too many values."""
        with threads_of(self.look_threads):
            return self._look(request)

    def _look(self, request: Look) -> Seen | AblationSearch:
        if isinstance(request, Attend):
            seen = Attention(request.id, *self.attention(request))
            network = cast(Transformer, self.network)
            return AblationSearch(network, self.config, self.rules, request, seen) if request.question.masked else seen
        if isinstance(request, Walk):
            return self.walkthrough(request)
        if isinstance(request, Align):
            return self.alignment(request)
        try:
            return inspection.trace_or_score(self.network, self.rules, request)
        except SelectionError as error:
            raise CannotInspect(str(error), error.field) from error

    def walkthrough(self, request: Walk) -> Walked:
        """CannotInspect for what the network does not have."""
        if not isinstance(self.network, Attentive):
            raise CannotInspect(f"{plain_name(request.model)} is no translator; only these can be walked through.")
        try:
            return inspection.inspect_walkthrough(cast(Transformer, self.network), self.rules, request)
        except SelectionError as error:
            raise CannotInspect(str(error), error.field) from error

    def alignment(self, request: Align) -> Aligned:
        """CannotInspect if the network shows no attention."""
        if not isinstance(self.network, Attentive):
            raise CannotInspect(f"{plain_name(request.model)} is no translator; only these align words.")
        return inspection.align_pairs(cast(Transformer, self.network), self.config, self.rules, request)

    def attention(self, request: Attend) -> tuple[list[Slice], AttentionFindings]:
        """CannotInspect if the network shows no attention or the answer would hold too many values."""
        if not isinstance(self.network, Attentive):
            raise CannotInspect(f"{plain_name(request.model)} has no attention to show; ask a translator instead.")
        try:
            slices, findings = inspection.inspect_attention(
                cast(Transformer, self.network), self.config, self.rules, request
            )
        except SelectionError as error:
            raise CannotInspect(str(error), REQUEST_FIELDS.get(error.field, error.field)) from error
        values = sum(math.prod(each.shape) for each in slices)
        if values > request.max_values:
            raise CannotInspect(
                f"This answer would hold {values:,} weights and the limit is {request.max_values:,};"
                " select fewer kinds, layers or heads, or send a shorter text."
            )
        return slices, findings


class PreparedModel(NamedTuple):
    """A checkpoint in memory. decodable: None while the network is still to be brought to its device. precision: what
    that decodes in."""

    network: Any
    decodable: Any
    checkpoint: checkpoints.Checkpoint
    precision: str
    parts: WordParts | None = None


class ModelRunner:
    """The models of one device."""

    def __init__(
        self, device: str, threads: int, slots: int, precision: str = "fp32", beam: int = 1, look_threads: int = 0
    ) -> None:
        """threads, look_threads: 0: torch's own choice, and as many as for all else. precision: "auto", which measures,
        or one of `models.interface.Precision`."""
        if threads:
            torch.set_num_threads(threads)
        self.device, self.slots, self.precision, self.beam = torch.device(device), slots, precision, beam
        self.look_threads = look_threads
        self.models: dict[str, LoadedModel] = {}
        self._fastest: dict[str, Precision] = {}  # of networks that were measured, by their architecture

    def check(self) -> None:
        """RuntimeError if the device is lost: after some errors of a GPU nothing works again in this process."""
        torch.ones(1, device=self.device).item()

    def load(self, name: str, folder: str, files: Mapping[str, str] | None = None) -> None:
        """CheckpointError if the folder cannot be used or holds other `files`; the models loaded before stay."""
        self.install(name, self.read(name, folder, files))

    def read(self, name: str, folder: str, files: Mapping[str, str] | None = None) -> PreparedModel:
        """What takes long of `load`, fit for another thread: it uses the CPU alone, and nothing that is running."""
        checkpoint = checkpoints.read(Path(folder))
        if files is not None and files != checkpoint.config.files:
            raise checkpoints.CheckpointError(f"{folder} has changed since the server read it: reload the model.")
        network = load_network(checkpoint)
        later = None, ""
        decodable, precision = self._decodable(name, network, checkpoint) if self.device.type == "cpu" else later
        parts = word_parts(checkpoint.tokenizers["target"]) if checkpoint.config.kind == "translator" else None
        return PreparedModel(network, decodable, checkpoint, precision, parts)

    def read_as_asked(self, asked: Load) -> PreparedModel:
        """The folder, or the kept files of a folder that has changed since."""
        try:
            return self.read(asked.name, asked.folder, asked.files)
        except checkpoints.CheckpointError as error:
            if not asked.kept:
                raise
            with linked_folder(Path(asked.folder).name, asked.kept) as folder:
                try:
                    found = self.read(asked.name, str(folder), asked.files)
                except checkpoints.CheckpointError as broken:  # then of the folder that people know
                    raise checkpoints.CheckpointError(str(broken).replace(str(folder), asked.folder)) from broken
            log.warning("%s as the server read it is loaded: %s", plain_name(asked.name), error)
            return found

    def install(self, name: str, found: PreparedModel) -> None:
        """From now on it can be used. On CUDA it goes there only now: another thread's work would end a graph that is
        being recorded."""
        network, decodable, checkpoint, precision, parts = found
        if decodable is None:
            network = network.to(self.device)
            decodable, precision = self._decodable(name, network, checkpoint)
        self.models[name] = LoadedModel(
            network, decodable, checkpoint.config, self.slots, self.beam, precision, self.look_threads, parts
        )

    def _decodable(self, name: str, network: Network, checkpoint: checkpoints.Checkpoint) -> tuple[Any, str]:
        """In the precision asked for, or in the fastest one here, which is measured once for each architecture; and how
        that is called, native kernels by name."""
        shape = json.dumps(checkpoint.config.architecture, sort_keys=True)
        used = cast(Precision, self.precision)
        if self.precision == "auto" and shape in self._fastest:
            used = self._fastest[shape]
            decodable = network.decodable(used)
            log.info("%s computes in %s on %s, as its like does", name, used, self.device)
        elif self.precision == "auto":
            decodable, times = fastest(network, self.device)
            used = self._fastest[shape] = next(iter(times))
            shown = ", ".join(f"{precision} {ms:.2f} ms" for precision, ms in times.items())
            log.info(
                "%s computes in %s on %s (a step of 1 row and one of 16: %s)",
                name,
                used,
                self.device,
                shown,
            )
        else:
            decodable = network.decodable(used)
            log.info("%s computes in %s on %s", name, used, self.device)
            if self.precision == "fp16" and self.device.type == "cpu":
                others = ", ".join(candidates(self.device))
                log.warning("fp16 is slow on CPUs: set PARLANCE_PRECISION to auto, the fastest of %s here", others)
        if self.device.type == "cuda":
            return Graphed(cast(Recordable, decodable)), used
        return decodable, f"{used} native" if isinstance(decodable, NativeTransformer | NativeRecurrent) else used

    def unload(self, name: str) -> None:
        """Free a model; the caller has dropped its own references. Unknown names are harmless."""
        self.models.pop(name, None)
        self.release_memory()

    def release_memory(self) -> None:
        """Give what the allocator only keeps for later back to the device."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _options(request: Decode) -> DecodingOptions:
    return DecodingOptions(
        max_new_tokens=request.max_new_tokens,
        beam=request.beam,
        n_best=request.n_best,
        length_penalty=request.length_penalty,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        seed=request.seed,
        scores=request.scores,
        token_scores=request.logprobs,
        streamed=request.wants_tokens,
        required=tuple(tuple(tuple(run) for run in term) for term in request.required),
        no_repeat_ngram_size=request.no_repeat_ngram_size,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        repetition_penalty=request.repetition_penalty,
        top_scores=request.top_logprobs,
    )
