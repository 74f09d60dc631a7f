"""POST /attention."""

from __future__ import annotations

import base64
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from models.decoding.options import DecodingOptions
from models.inspection.results import (
    Ablation,
    Alignment,
    AttentionFindings,
    Candidate,
    DecoderStep,
    HeadStatistics,
    Rollout,
    WorkedRow,
)
from models.inspection.selection import Head, Row
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.request_builders import attention_query

BIER = {"id": 17, "piece": "▁bier", "text": "bier", "start": 0, "end": 4, "special": False, "word": 0}
END = {"id": 3, "piece": "</s>", "text": "", "start": None, "end": None, "special": True, "word": None}
START = END | {"id": 2, "piece": "<s>"}
BEER = BIER | {"id": 5, "piece": "▁beer", "text": "beer"}


def test_the_whole_answer() -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier", "kinds": ["cross"]})
    assert answer.status_code == 200
    assert answer.json() == {
        "schema": "attention/1",
        "model": "tiny-de-en",
        "network": {
            "sha256": "0" * 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "heads": 1,
            "head_width": 4,
            "norm": "post",
            "dtype": "float32",
        },
        "source": {"text": "bier", "tokens": [BIER, END]},
        "target": {
            "text": "beer",
            "forced": False,
            "finished": True,
            "logprob_sum": -0.5,
            "input_tokens": [START, BEER],
            "output_tokens": [BEER, END],
        },
        "attention": {
            "cross": {
                "axes": ["layer", "head", "query", "key"],
                "shape": [1, 1, 2, 2],
                "layers": [0],
                "heads": [0],
                "reduced": {"heads": "none", "layers": "none"},
                "query": "target_input",
                "key": "source",
                "encoding": "json",
                "decimals": 8,
                "max_abs_error": pytest.approx(0.5e-8, abs=1e-6),
                "weights": [[[[0.75, 0.25], [0.5, 0.5]]]],
            }
        },
        "limits": {
            "values": 4,
            "json": 262_144,
            "binary": 1_048_576,
            "source_tokens": 256,
            "target_tokens": 256,
        },
        "warnings": [],
        "timing_ms": ANY,
    }
    # The endpoint does not validate what it sends, so that large answers are fast; this does.


def test_the_answer_is_compact_utf8() -> None:
    content = Client().post("/attention", json={"source": "bier"}).content
    assert b": " not in content
    assert "▁bier".encode() in content


def test_defaults_ask_for_everything() -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier"})
    assert list(answer.json()["attention"]) == ["encoder", "decoder", "cross"]
    assert client.engine.requests == [attention_query(source="bier", model="tiny-de-en", target_language="en")]


def test_every_field_reaches_the_engine() -> None:
    client = Client()
    fields = {"source": "bier", "target": "ale", "kinds": ["cross", "cross"], "layers": [0, -1], "heads": [3]}
    answer = client.post("/attention", json=fields | {"model": "tiny-de-en"})
    assert answer.json()["target"]["forced"] is True
    assert client.engine.requests == [
        attention_query("bier", "ale", "tiny-de-en", kinds=("cross",), layers=(0, -1), heads=(3,))
    ]


def test_inspection_options_reach_the_engine() -> None:
    client = Client()
    fields = {
        "source_ids": [17, 9],
        "prefix": "a",
        "decode": {"beam_size": 3, "length_penalty": 0.5, "max_new_tokens": 9},
        "reduce": {"heads": "max", "layers": "mean"},
        "include": ["steps", "alignment"],
        "top_k": 4,
        "mask_heads": [{"kind": "cross", "layer": -1, "head": 2}],
        "qk": {"kind": "encoder", "layer": 0, "head": 1, "row": -1},
        "encoding": "u8",
    }
    assert client.post("/attention", json=fields).status_code == 200
    assert client.engine.requests == [
        attention_query(
            None,
            max_values=4 * 262_144,
            source_ids=(17, 9),
            prefix="a",
            decoding=DecodingOptions(beam_size=3, length_penalty=0.5, max_new_tokens=9),
            reduce_heads="max",
            reduce_layers="mean",
            include=("steps", "alignment"),
            top_k=4,
            masked=(Head("cross", -1, 2),),
            row=Row("encoder", 0, 1, -1),
        )
    ]


def test_statistics_match_the_schema() -> None:
    statistics = HeadStatistics(0.1, 0.2, 0.9, 0.0, 0.3, 0.1, 0.5, 0.1, 1.0, "diagonal")
    result = AttentionFindings(
        logprob_sum=-0.5,
        stats={"cross": [[statistics]]},
        rollout=Rollout([[0.5, 0.5]] * 2, [[1.0, 0.0]] * 2, [0.5, 0.5], "method", "caveat"),
        alignment=Alignment([(0, 0, 0.75)], "0-0", "word", [(0, 0)], "predicting", 0.02),
        steps=[
            DecoderStep(-0.25, 1, 0.3, [Candidate(5, -0.25, "▁beer", "beer")]),
            DecoderStep(-0.25, 2, 0.2, []),
        ],
        ablation=Ablation([Head("cross", 0, 0)], -0.5, -2.0, [-1.0, -0.5], [9], "ale"),
        qk=WorkedRow("cross", 0, 0, 1, 0.5, [1.0, 1.0], [True, True], [0.5, 0.5]),
    )
    client = Client(FakeEngine(findings=result, found_logprob=-0.75))
    answer = client.post("/attention", json={"source": "bier"})
    body = answer.json()
    assert body["stats"]["cross"][0][0]["role"] == "diagonal"
    assert body["rollout"]["source_share"] == [0.5, 0.5]
    assert body["alignment"]["links"] == [[0, 0, 0.75]]
    assert body["steps"][0] == {
        "logprob": -0.25,
        "rank": 1,
        "entropy_nats": 0.3,
        "top": [{"id": 5, "logprob": -0.25, "piece": "▁beer", "text": "beer"}],
    }
    assert body["ablation"]["text_after"] == "ale"
    assert body["qk"]["softmax"] == [0.5, 0.5]
    assert body["warnings"] == [
        "The search gave this translation -0.7500 nats and the pass shown here -0.5000: the search computes in the"
        " server's precision, this pass in fp32."
    ]


@pytest.mark.parametrize(("encoding", "dtype"), [("u8", "uint8"), ("u16", "uint16"), ("f32", "float32")])
def test_encoded_weights_are_within_the_stated_error(encoding: str, dtype: str) -> None:
    weights = [[[[0.123456, 0.876544], [1.0, 0.0]]]]
    client = Client(FakeEngine(weights=weights))
    cross_map = client.post("/attention", json={"source": "bier", "encoding": encoding}).json()["attention"]["cross"]
    assert (cross_map["dtype"], cross_map["shape"], cross_map["byte_order"], cross_map["offset"]) == (
        dtype,
        [1, 1, 2, 2],
        "little",
        0,
    )
    numbers = np.frombuffer(base64.b64decode(cross_map["data"]), dtype=cross_map["dtype"]).reshape(cross_map["shape"])
    far = np.abs(numbers * cross_map["scale"] - np.array(weights, dtype=np.float32)).max()
    assert far <= cross_map["max_abs_error"]
    assert "weights" not in cross_map


def test_all_attention_options_are_accepted() -> None:
    client = Client()
    client.post("/attention", json={"source": "bier", "layers": "all", "heads": "all"})
    assert client.engine.requests == [attention_query(source="bier", model="tiny-de-en", target_language="en")]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"source": " "}, '"source" is empty; send at least one character that is not white space.'),
        ({"target": ""}, '"target" is empty; leave it out to see the model\'s own translation.'),
        ({"source": None}, '"source" is missing: send a text, or the ids of its tokens as "source_ids".'),
        ({"source_ids": [5]}, '"source" and "source_ids" say the same twice: send one of them.'),
        (
            {"target": "beer", "prefix": "be"},
            'With a "target" nothing is decoded: leave "prefix" out.',
        ),
        ({"top_k": 3}, '"top_k" is of steps: add "steps" to "include".'),
        (
            {"include": ["sums"]},
            '"include" holds "sums"; it takes a list of "alignment", "rollout", "stats" and "steps".',
        ),
        (
            {"mask_heads": [{"kind": "cross", "layer": 0}]},
            '"mask_heads[0].head" is missing; add it to the request, as the example at /docs does.',
        ),
        ({"encoding": "u4"}, '"encoding" is "u4"; it takes "json", "u8", "u16" or "f32".'),
        ({"kinds": []}, '"kinds" is empty; it takes a list of "encoder", "decoder" and "cross".'),
        ({"kinds": "cross"}, '"kinds" is "cross"; it takes a list of "encoder", "decoder" and "cross".'),
        ({"kinds": [["cross"]]}, '"kinds" holds a list; it takes a list of "encoder", "decoder" and "cross".'),
        ({"layers": []}, '"layers" has 0 numbers; it takes 1 to 256.'),
        ({"heads": [0] * 257}, '"heads" has 257 numbers; it takes 1 to 256.'),
        (
            {"layers": [True]},
            '"layers" holds true; it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.',
        ),
        (
            {"layers": 10**1000},
            '"layers" is a very large number; it takes "all" or a list of whole numbers, such as [0, 1] or [-1]'
            " for the last.",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier"} | fields)
    assert (answer.status_code, answer.json()["error"]) == (422, sentence)
    assert client.engine.calls == 0


def test_forms_of_other_tools() -> None:
    result = AttentionFindings(
        logprob_sum=-0.5,
        alignment=Alignment([(0, 0, 0.75)], "0-0", "word", [(0, 0)], "predicting", 0.02),
    )
    client = Client(FakeEngine(findings=result))
    line = client.post("/attention?format=pharaoh", json={"source": "bier"})
    assert (line.text, line.headers["content-type"]) == ("0-0\n", "text/plain; charset=utf-8")
    assert client.engine.requests == [
        attention_query(
            "bier",
            model="tiny-de-en",
            target_language="en",
            kinds=("cross",),
            layers=(0,),
            heads=(0,),
            include=("alignment",),
            max_bytes=0,
        )
    ]
    block = client.post("/attention?format=nematus", json={"source": "bier", "kinds": ["cross"]}).text
    assert block.splitlines() == [
        "0 ||| ▁beer ||| -0.500000 ||| ▁bier ||| 2 2",
        "0.7500000 0.2500000",
        "0.5000000 0.5000000",
    ]
    table = client.post("/attention?format=csv", json={"source": "bier", "kinds": ["decoder"]}).text.splitlines()
    assert table[:3] == [
        "kind,layer,head,query,key,query_piece,key_piece,weight",
        "decoder,0,0,0,0,<s>,<s>,0.75000000",
        "decoder,0,0,0,1,<s>,▁beer,0.25000000",
    ]
    refused = client.post("/attention?format=png", json={"source": "bier"})
    assert refused.json()["error"] == '"format" is "png"; it takes one of json, pharaoh, nematus, csv.'
    client = Client(FakeEngine(weights=[[[[0.5, 0.5]] * 2] * 2]))
    refused = client.post("/attention?format=nematus", json={"source": "bier"})
    assert (refused.status_code, refused.json()["error"].split(":")[0]) == (422, "This form holds one map")


def test_large_answers_are_compressed_if_accepted() -> None:
    client = Client(FakeEngine(weights=[[[[0.5] * 50] * 50]]))
    plain = client.post("/attention", json={"source": "bier"}, headers={"Accept-Encoding": "identity"})
    packed = client.post("/attention", json={"source": "bier"}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) * 20 < int(plain.headers["content-length"])
    assert packed.json() | {"timing_ms": 0} == plain.json() | {"timing_ms": 0}
    assert packed.headers["etag"] == plain.headers["etag"]
