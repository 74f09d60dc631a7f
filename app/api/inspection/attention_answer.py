"""The answer of POST /attention: maps, alignment, rollout, statistics, steps, ablation; and the same as text for other
tools: Pharaoh, Nematus, CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, Self

import numpy as np
from msgspec import structs

from app.api.inspection.attention_request import BINARY_FACTOR, AttentionRequest
from app.api.inspection.encoded_arrays import encode_array
from app.api.request_fields import doc, example_of, optional
from app.api.responses import NATS_DECIMALS, Answer, copied, round_floats, round_nats
from app.engine.interface import AttentionResult, InspectionTimings, Token
from app.errors import InvalidRequest
from models.inspection import results
from models.inspection.selection import AttentionKind
from models.inspection.soft_alignments import to_nematus

SHARE_DECIMALS = 6  # of means of weights, and of scores: a network's float32 has no more
MAX_DISAGREEMENT_NATS = 1e-3  # a token, between the search and the pass shown, before the answer warns of it


class Source(Answer):
    """What the encoder read."""

    text: str = doc("The text that the offsets count in.", "ich möchte ein bier")
    tokens: Sequence[Token] = doc(
        "Its tokens, as the encoder read them: the keys of `encoder` and `cross`.", [example_of(Token)]
    )


class Target(Answer):
    """What the decoder wrote. Row t of `decoder` and `cross` read input token t to predict output token t."""

    text: str = doc("The text that the offsets count in.", "i want a beer")
    forced: bool = doc("Whether the request gave it.", False)
    logprob_sum: float | None = doc(
        "Log-probability of the output tokens, in nats, from one teacher-forced pass; null (minus infinity)"
        " where one of them is never chosen.",
        -0.41,
    )
    finished: bool = doc("Whether it ends with the end token.", True)
    input_tokens: Sequence[Token] = doc(
        "What the decoder read at each step, beginning with its start token.",
        [{"id": 2, "piece": "<s>", "text": "", "start": None, "end": None, "word": None, "special": True}],
    )
    output_tokens: Sequence[Token] = doc(
        "What it predicted at each step, ending with its end token.",
        [{"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "word": 0, "special": False}],
    )


class Network(Answer):
    """The translator's measures."""

    sha256: str | None = doc("Of its weights.", "9f86d0…")
    encoder_layers: int = doc("Of the encoder.", 6)
    decoder_layers: int = doc("Of the decoder.", 6)
    heads: int = doc("Of each layer.", 8)
    head_width: int = doc("Of queries, keys and values.", 64)
    norm: str = doc('"pre" or "post".', "post")
    dtype: Literal["float32"] = doc("What a look inside is computed in.", "float32")


class Rollout(results.Rollout, Answer):
    """Abnar and Zuidema 2020; rows sum to 1, but for what `decimals` cut off."""

    decimals: int = doc("Of these numbers, which are digits in any encoding.", 8)
    max_abs_error: float = doc(
        "No number is further from the computed one: a row of n sums to 1 within n times this.", 0.000000244
    )

    @classmethod
    def of(cls, rollout: results.Rollout, decimals: int) -> Self:
        arrays = {
            name: encode_array(np.array(getattr(rollout, name), dtype=np.float32), "json", decimals=decimals)
            for name in ("encoder", "cross", "source_share")
        }
        return cls(
            **structs.asdict(rollout) | {name: array["values"] for name, array in arrays.items()},
            decimals=decimals,
            max_abs_error=max(array["max_abs_error"] for array in arrays.values()),
        )


def _rounded_row(row: results.WorkedRow, decimals: int) -> results.WorkedRow:
    """softmax has the digits of the map's row, where that is JSON."""
    return structs.replace(
        row,
        scale=float(f"{row.scale:.9g}"),
        scores=round_floats(row.scores, SHARE_DECIMALS),
        softmax=encode_array(np.array(row.softmax, dtype=np.float32), "json", decimals=decimals)["values"],
    )


Axis = Literal["layer", "head", "query", "key"]
AXES: list[Axis] = ["layer", "head", "query", "key"]
SCHEMA: Literal["attention/1"] = "attention/1"


_ATTENTION = {
    "axes": ["layer", "head", "query", "key"],
    "shape": [1, 1, 1, 2],
    "layers": [5],
    "heads": [0],
    "reduced": {"heads": "none", "layers": "none"},
    "query": "target_input",
    "key": "source",
    "encoding": "json",
    "decimals": 8,
    "max_abs_error": 0.000000005,
    "weights": [[[[0.9, 0.1]]]],
}


class Attention(Answer):
    """Attention weights of one kind; the weights of a query over its keys sum to 1, unless `reduced` says "max"."""

    axes: list[Axis] = doc("What the dimensions are.", AXES)
    shape: list[int] = doc("The size of each dimension.", [1, 1, 1, 2])
    layers: list[int] = doc("Which layers these are, counted from 0.", [5])
    heads: list[int] = doc("Which heads these are, counted from 0.", [0])
    reduced: dict[Literal["heads", "layers"], Literal["none", "mean", "max"]] = doc(
        "What was made of several: a dimension of one is then the mean or maximum of those named.",
        {"heads": "none", "layers": "none"},
    )
    query: Literal["source", "target_input"] = doc("What the rows are.", "target_input")
    key: Literal["source", "target_input"] = doc("What the columns are.", "source")
    weights: list[list[list[list[float]]]] | None = optional(
        "weights[layer][head][query][key], 0 to 1.", [[[[0.9, 0.1]]]]
    )
    encoding: Literal["json", "u8", "u16", "f32"] = doc("How the weights are written.", "u8")
    decimals: int | None = optional("Of `weights`.", 4)
    dtype: str | None = optional("Of the numbers in `data`.", "uint8")
    byte_order: Literal["little"] | None = optional("Of numbers of several bytes.", "little")
    scale: float | None = optional("A weight is `offset` and the number times this.", 0.004)
    offset: float | None = optional("What a number of 0 stands for.", 0.0)
    max_abs_error: float = doc("No weight that is decoded so is further from the computed one.", 0.00201)
    data: str | None = optional("Base64 of the numbers in C order: the last axis varies fastest.", "5hk=")

    @classmethod
    def of(cls, kind: AttentionKind, attention: results.AttentionMap, request: AttentionRequest) -> Self:
        array = encode_array(attention.values, request.encoding, decimals=request.decimals, bounds=(0.0, 1.0))
        return cls(
            axes=AXES,
            layers=list(attention.layers),
            heads=list(attention.heads),
            reduced={"heads": request.reduce.heads, "layers": request.reduce.layers},
            query="source" if kind == "encoder" else "target_input",
            key="target_input" if kind == "decoder" else "source",
            weights=array.pop("values", None),
            **array,
        )


class Limits(Answer):
    """How large an answer may be, and how large this one is."""

    values: int = doc("Numbers in the maps and the rollout of this answer.", 196_608)
    json_: int = doc("Most of them as digits.", 262_144, alias="json")
    binary: int = doc("Most of them as bytes: u8, u16 or f32.", 1_048_576)
    source_tokens: int = doc("The longest source that the model reads.", 256)
    target_tokens: int = doc("The longest target that it writes.", 256)

    @classmethod
    def of(cls, result: AttentionResult, limit: int) -> Self:
        """limit: of numbers as digits. The values are counted as `app.engine.input_processor` counts them."""
        rollout = result.findings.rollout
        rows = [] if rollout is None else [*rollout.encoder, *rollout.cross]
        return cls(
            values=sum(math.prod(each.shape) for each in result.maps.values()) + sum(map(len, rows)),
            json_=limit,
            binary=limit * BINARY_FACTOR,
            source_tokens=result.max_source_tokens,
            target_tokens=result.max_target_tokens,
        )


class TimingMs(Answer):
    """Wall clock of the parts, in milliseconds. It has no part in the ETag."""

    encode: float = doc("Texts to tokens.", 0.4)
    decode: float | None = optional(
        "The search for the model's own translation, with its wait for a device; only where there was one.", 31.5
    )
    attention: float = doc("The teacher-forced pass and all that is read from it, with its wait for a device.", 12.9)
    serialise: float = doc("This answer, until it was written as JSON.", 4.2)

    @classmethod
    def of(cls, took: InspectionTimings, serialise_s: float) -> Self:
        """A given target is not decoded, and has no time of it."""
        parts = {
            "encode": took.encode_s,
            "decode": took.decode_s,
            "attention": took.attention_s,
            "serialise": serialise_s,
        }
        return cls(**{name: round(1000 * seconds, 3) for name, seconds in parts.items() if seconds is not None})


class UntimedAttention(Answer):
    """All of `AttentionAnswer` but its times, which are known once the rest is written."""

    schema_: Literal["attention/1"] = doc("Of this answer.", SCHEMA, alias="schema")
    model: str = doc("Name of the translator.", "everyday")
    network: Network = doc("Its measures.", {"sha256": "9f86d0…", "encoder_layers": 6, "decoder_layers": 6, "heads": 8})
    source: Source = doc("The encoder's side.", {"text": "ich möchte ein bier", "tokens": []})
    target: Target = doc(
        "The decoder's side.", {"text": "i want a beer", "forced": False, "finished": True, "logprob_sum": -0.41}
    )
    attention: dict[AttentionKind, Attention] = doc(
        "The kinds that were asked for.",
        {"cross": _ATTENTION},
    )
    stats: dict[AttentionKind, list[list[results.HeadStatistics]]] | None = optional(
        "stats[kind][layer][head], of all layers and heads of the kinds asked for.",
        {"cross": [[{"entropy_mean": 0.42, "role": "diagonal"}]]},
    )
    rollout: Rollout | None = optional("Attention followed through all layers.", {"encoder": [[1.0]], "cross": [[1.0]]})
    alignment: results.Alignment | None = optional(
        "Which source word each target word comes from.", {"pharaoh": "0-0 1-1 2-2 3-3", "unit": "word"}
    )
    steps: list[results.DecoderStep] | None = optional(
        "What the decoder thought of at each step.", [{"logprob": -0.09, "rank": 1, "entropy_nats": 0.3, "top": []}]
    )
    ablation: results.Ablation | None = optional(
        "What the heads in `mask_heads` are worth.",
        {"logprob_sum_before": -0.41, "logprob_sum_after": -1.71, "text_after": "i want beer"},
    )
    qk: results.WorkedRow | None = optional(
        "The row asked for, worked out.", {"scores": [2.1, -0.3], "mask": [True, True], "softmax": [0.92, 0.08]}
    )
    limits: Limits = doc(
        "What this answer holds, and the most it may hold.",
        {"values": 600, "json": 262144, "binary": 1048576, "source_tokens": 256, "target_tokens": 256},
    )
    warnings: list[str] = doc("What to know before one believes the numbers.", [])

    @classmethod
    def of(cls, result: AttentionResult, request: AttentionRequest, limit: int) -> Self:
        findings, decimals = result.findings, request.decimals
        alignment = findings.alignment
        return cls(
            schema_=SCHEMA,
            model=result.model,
            network=copied({**result.network, "dtype": "float32"}, Network),
            source=Source(text=result.source_text, tokens=result.source_tokens),
            target=Target(
                text=result.target_text,
                forced=result.forced,
                finished=result.finished,
                logprob_sum=round_nats(findings.logprob_sum),
                input_tokens=result.input_tokens,
                output_tokens=result.output_tokens,
            ),
            attention={kind: Attention.of(kind, each, request) for kind, each in result.maps.items()},
            stats=round_floats(findings.stats, SHARE_DECIMALS),
            rollout=None if findings.rollout is None else Rollout.of(findings.rollout, decimals),
            alignment=alignment and structs.replace(alignment, links=round_floats(alignment.links, SHARE_DECIMALS)),
            steps=round_floats(findings.steps, NATS_DECIMALS),
            ablation=round_floats(findings.ablation, NATS_DECIMALS),
            qk=None if findings.qk is None else _rounded_row(findings.qk, decimals),
            limits=Limits.of(result, limit),
            warnings=_warnings(result),
        )


class AttentionAnswer(UntimedAttention):
    """Both sentences as the model saw them, and how its parts attended to each other."""

    timing_ms: TimingMs = doc("What it took.", {"encode": 0.4, "decode": 31.5, "attention": 12.9, "serialise": 4.2})


def _warnings(result: AttentionResult) -> list[str]:
    searched, shown = result.found_logprob, result.findings.logprob_sum
    if searched is None or abs(searched - shown) <= MAX_DISAGREEMENT_NATS * max(1, len(result.output_tokens)):
        return []
    return [
        f"The search gave this translation {searched:.4f} nats and the pass shown here {shown:.4f}: the search"
        " computes in the server's precision, this pass in fp32."
    ]


_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def pharaoh(report: AttentionResult) -> str:
    """source-target word numbers, from 0, on one line; as fast_align, awesome-align and Marian write them."""
    alignment = report.findings.alignment
    assert alignment is not None, "asked for with the form"
    return f"{alignment.pharaoh}\n"


def nematus(report: AttentionResult) -> str:
    """One block of `to_nematus`, which has one map."""
    each = report.maps.get("cross")
    if each is None or each.shape[:2] != (1, 1):
        raise InvalidRequest(
            'This form holds one map: ask for "kinds" ["cross"] and one layer and head, or reduce them to their mean.',
            field="kinds",
        )
    source, target = report.source_tokens, report.output_tokens
    return to_nematus(
        each.values[0, 0],
        [token.piece for token in source],
        [token.piece for token in target],
        score=report.findings.logprob_sum,
        source_ended=bool(source) and source[-1].special,
        target_ended=bool(target) and target[-1].special,
    )


def csv_table(report: AttentionResult) -> str:
    """A row for each weight. Pieces are texts to a spreadsheet, never formulas: see `cell`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kind", "layer", "head", "query", "key", "query_piece", "key_piece", "weight"])
    for kind, each in report.maps.items():
        rows = report.source_tokens if kind == "encoder" else report.input_tokens
        columns = report.input_tokens if kind == "decoder" else report.source_tokens
        layers = each.layers if each.shape[0] == len(each.layers) else ("reduced",)
        heads = each.heads if each.shape[1] == len(each.heads) else ("reduced",)
        for layer, by_head in zip(layers, each.values.tolist(), strict=True):
            for head, by_row in zip(heads, by_head, strict=True):
                for q, (row, weights) in enumerate(zip(rows, by_row, strict=True)):
                    writer.writerows(
                        [kind, layer, head, q, k, escape_cell(row.piece), escape_cell(column.piece), f"{weight:.8f}"]
                        for k, (column, weight) in enumerate(zip(columns, weights, strict=True))
                    )
    return out.getvalue()


def escape_cell(text: str) -> str:
    """An apostrophe before what a spreadsheet would run as a formula, also after apostrophes: taken away, it gives the
    text back. https://owasp.org/www-community/attacks/CSV_Injection"""
    return f"'{text}" if _FORMULA.match(text) else text


FORMATS: dict[str, tuple[str, Callable[[AttentionResult], str]]] = {
    "pharaoh": ("text/plain; charset=utf-8", pharaoh),
    "nematus": ("text/plain; charset=utf-8", nematus),
    "csv": ("text/csv; charset=utf-8", csv_table),
}
