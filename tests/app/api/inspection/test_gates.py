"""POST /gates."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from app.engine.interface import GATES
from models.networks.cells import CELLS
from tests.app.api.client import Client
from tests.request_builders import gates_query

FEN = {"id": 20, "piece": "分", "text": "分", "start": 0, "end": 1, "special": False, "word": None}
KAI = {"id": 21, "piece": "开", "text": "开", "start": 1, "end": 2, "special": False, "word": None}
PLACE = {"axes": ["layer", "step", "unit"], "layers": [0], "units": [[117]], "encoding": "json", "shape": [1, 2, 1]}


def test_the_whole_answer() -> None:
    answer = Client().post("/gates", json={"text": "分开"})
    assert answer.status_code == 200
    result = answer.json()
    errors = [result["gates"][name].pop("max_abs_error") for name in ("z", "h")]
    assert errors == [pytest.approx(5e-5, rel=0.01)] * 2
    assert result == {
        "model": {
            "name": "lyrics-zh",
            "cell": "gru",
            "layers": 1,
            "hidden": 256,
            "convention": "z = 1 keeps",
            "bounds": {"z": [0, 1], "h": [-1, 1]},
        },
        "text": "分开",
        "tokens": [FEN, KAI],
        "gates": {
            "z": {**PLACE, "decimals": 4, "values": [[[0.25], [0.9877]]]},
            "h": {**PLACE, "decimals": 4, "values": [[[-0.25], [-0.9877]]]},
        },
        "summaries": [
            {
                "layer": 0,
                "mean": {"z": [0.5, 0.1235]},
                "low": {"z": [0.5, 0.1235]},
                "high": {"z": [0.5, 0.1235]},
                "hidden_change": [0.5, 0.1235],
            }
        ],
        "steps": [
            {
                "logprob": -0.25,
                "rank": 1,
                "entropy": 1.5,
                "top": [{"id": 21, "piece": "开", "text": "开", "logprob": -0.25}],
            },
            {"logprob": None, "rank": None, "entropy": 2.0, "top": []},
        ],
    }
    # The endpoint does not validate what it sends, so that large answers are fast; this does.


def test_every_field_reaches_the_engine() -> None:
    client = Client(max_attention_values=1000)
    fields = {"text": "分开", "model": "lyrics-zh", "layers": [0, -1], "units": [3, 3, -1], "gates": ["h", "z", "h"]}
    client.post("/gates", json=fields | {"top_k": 3})
    client.post("/gates", json={"text": "分开", "layers": "all", "gates": "all", "units": 64})
    assert client.engine.requests == [
        gates_query("分开", "lyrics-zh", gates=("h", "z"), layers=(0, -1), units=(3, 3, -1), top_k=3, max_values=1000),
        gates_query("分开", units=64, max_values=1000),
    ]


@pytest.mark.parametrize("cell", CELLS)
def test_every_gate_of_every_cell_can_be_asked_for(cell: str) -> None:
    client = Client()
    assert client.post("/gates", json={"text": "分开", "gates": [*CELLS[cell].shown]}).status_code == 200
    assert client.engine.calls == 1


def test_bytes_say_how_to_read_them() -> None:
    answer = Client().post("/gates", json={"text": "分开", "encoding": "u8"})
    shares, states = (answer.json()["gates"][name] for name in ("z", "h"))
    assert (shares["scale"], shares["offset"]) == (0.004, 0.0)
    assert (states["scale"], states["offset"]) == (0.008, -1.0)
    for gate, expected in ((shares, [0.25, 0.98765432]), (states, [-0.25, -0.98765432])):
        numbers = np.frombuffer(base64.b64decode(gate["data"]), dtype=gate["dtype"])
        result = gate["offset"] + gate["scale"] * numbers
        assert np.abs(result - expected).max() <= gate["max_abs_error"] < 0.005
    exact = Client().post("/gates", json={"text": "分开", "encoding": "f32"}).json()["gates"]["h"]
    assert np.frombuffer(base64.b64decode(exact["data"]), "<f4").tolist() == [-0.25, np.float32(-0.98765432)]


def test_values_have_the_requested_decimals() -> None:
    result = Client().post("/gates", json={"text": "分开", "decimals": 6}).json()
    assert result["gates"]["z"]["values"] == [[[0.25], [0.987654]]]
    assert result["summaries"][0]["hidden_change"] == [0.5, 0.123457]


NAMES = f'it takes "all" or a list of {", ".join(GATES[:-1])} and {GATES[-1]}, those that the cell has.'
UNITS = "it takes 1 to 64, for so many that vary most, or a list of units, such as [0, 7]."


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"text": ""}, '"text" is empty; give at least one character.'),
        ({"text": "分" * 11}, '"text" has a text of 11 characters; one text may have 10. Send it in parts.'),
        ({"gates": []}, f'"gates" is empty; {NAMES}'),
        ({"gates": "z"}, f'"gates" is "z"; {NAMES}'),
        ({"gates": ["z", "x"]}, f'"gates" holds "x"; {NAMES}'),
        ({"units": 0}, f'"units" is 0; {UNITS}'),
        ({"units": 65}, f'"units" is 65; {UNITS}'),
        ({"units": "all"}, f'"units" is "all"; {UNITS}'),
        ({"units": []}, '"units" has 0 numbers; it takes 1 to 256.'),
        ({"units": [1, True]}, f'"units" holds true; {UNITS}'),
        ({"top_k": 11}, '"top_k" is 11; it takes at most 10.'),
        ({"decimals": 2}, '"decimals" is 2; it takes 3 or more.'),
        ({"encoding": "u4"}, '"encoding" is "u4"; it takes "json", "f32", "u16" or "u8".'),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    client = Client(max_text_characters=10)
    answer = client.post("/gates", json={"text": "分开"} | fields)
    assert (answer.status_code, answer.json()["error"]) == (422, sentence)
    assert client.engine.calls == 0
