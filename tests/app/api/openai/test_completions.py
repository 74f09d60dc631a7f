"""POST /v1/completions: the engine's request and the exact answer."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

import pytest

from app.api.openai.completion_output import gather
from app.engine.interface import ModelInfo, ScoreQuery, ScoreResult
from app.errors import InvalidRequest
from tests.app.api.client import Client
from tests.app.api.fake_engine import LYRICIST, translator
from tests.app.api.openai.writer import Writer
from tests.request_builders import generation_request

PATH = "/v1/completions"
JOB = generation_request("分开", "lyrics-zh", max_new_tokens=16, temperature=1.0)


def choice(index: int, text: str, seed: int | None = 1234, **change: Any) -> dict[str, Any]:
    fields = {"index": index, "text": text, "logprobs": None, "finish_reason": "length", "stop_reason": None}
    return {**fields, "seed": seed, **change}


def posted(body: dict[str, Any], writer: Writer | None = None) -> tuple[Client, dict[str, Any]]:
    client = Client(writer or Writer())
    answer = client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    fields: dict[str, Any] = answer.json()
    return client, fields


def test_defaults_equal_openai() -> None:
    client = Client(Writer())
    before = int(time.time())
    answer = client.post(PATH, json={"prompt": "分开"}, headers={"x-request-id": "abc"})
    fields = answer.json()
    assert before <= fields.pop("created") <= time.time()
    assert fields == {
        "id": "cmpl-abc",
        "object": "text_completion",
        "model": "lyrics-zh",
        "system_fingerprint": "lyrics-zh@1",
        "choices": [choice(0, "后0")],
        "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4},
    }
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "abc")
    assert client.engine.requests == [JOB]


def test_every_field_reaches_the_engine() -> None:
    fields = {
        "model": "lyrics-zh",
        "prompt": "分开",
        "max_tokens": 7,
        "temperature": 0,  # JavaScript writes no 0.0
        "top_p": 0.9,
        "top_k": 40,
        "seed": 2**63 - 2,
        "n": 2,
        "stop": ["\n", "。"],
        "presence_penalty": -2,
        "frequency_penalty": 1.5,
        "repetition_penalty": 1.25,
        "no_repeat_ngram_size": 4,
        "logprobs": 3,
        "user": "someone",
        "best_of": 2,
        "suffix": "",
        "logit_bias": {},
        "min_p": 0,
        "no such field": 1,
    }
    client, answer = posted(fields)
    expected = generation_request(
        prompt="分开",
        model="lyrics-zh",
        max_new_tokens=7,
        temperature=0.0,
        top_k=40,
        top_p=0.9,
        seed=2**63 - 2,
        n=2,
        stop=("\n", "。"),
        logprobs=True,
        top_logprobs=3,
        presence_penalty=-2.0,
        frequency_penalty=1.5,
        repetition_penalty=1.25,
        no_repeat_ngram_size=4,
    )
    assert client.engine.requests == [expected]
    assert [each["seed"] for each in answer["choices"]] == [2**63 - 2, 2**63 - 1]


def test_null_is_the_default() -> None:
    left_open = ("model", "max_tokens", "temperature", "top_p", "n", "stream", "stream_options", "logprobs", "echo")
    left_open += ("stop", "presence_penalty", "frequency_penalty", "seed", "user", "best_of", "suffix", "logit_bias")
    left_open += ("top_k", "min_p", "repetition_penalty", "no_repeat_ngram_size")
    client, _ = posted({"prompt": "分开", **dict.fromkeys(left_open)})
    assert client.engine.requests == [JOB]


def test_minus_one_is_no_cut_either() -> None:
    client, _ = posted({"prompt": "分开", "top_k": -1})
    assert client.engine.requests == [JOB]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        (["分", "开"], [{"prompt": "分"}, {"prompt": "开"}]),
        ([20, 21], [{"prompt": "", "prompt_ids": (20, 21)}]),
        ([[20], [21, 5]], [{"prompt": "", "prompt_ids": (20,)}, {"prompt": "", "prompt_ids": (21, 5)}]),
    ],
)
def test_several_prompts_and_tokens(prompt: Any, asked: list[dict[str, Any]]) -> None:
    client, answer = posted({"prompt": prompt, "n": 2, "seed": 1})
    base = {"model": "lyrics-zh", "max_new_tokens": 16, "temperature": 1.0, "seed": 1, "n": 2}
    assert client.engine.requests == [generation_request(**base | each) for each in asked]
    assert answer["choices"] == [choice(2 * p + i, f"后{i}", 1 + i) for p in range(len(asked)) for i in range(2)]
    count = len(asked)
    assert answer["usage"] == {"prompt_tokens": 2 * count, "completion_tokens": 4 * count, "total_tokens": 6 * count}


def test_without_a_name_the_first_lyricist_writes() -> None:
    second = ModelInfo(**{name: getattr(LYRICIST, name) for name in LYRICIST.__slots__} | {"name": "b", "version": 3})
    writer = Writer(loaded=[translator("de", "en"), second, LYRICIST])
    client, answer = posted({"prompt": "分开"}, writer)
    assert (answer["model"], answer["system_fingerprint"]) == ("b", "b@3")
    assert client.engine.requests[0].model == "b"


@pytest.mark.parametrize(("reason", "told"), [("stop", "stop"), ("length", "length"), ("repetition", "length")])
def test_finish_reasons(reason: Any, told: str) -> None:
    _, answer = posted({"prompt": "分开"}, Writer(reason=reason))
    circling = "repetition" if reason == "repetition" else None
    assert answer["choices"] == [choice(0, "后0", finish_reason=told, stop_reason=circling)]


LIKELIEST = [{"后": -0.5, "前": -1.25}, {"了": -0.25, "0": -2.5}]


@pytest.mark.parametrize(
    ("count", "top"), [(0, [{"后": -0.5}, {"0": -2.5}]), (1, [{"后": -0.5}, LIKELIEST[1]]), (2, LIKELIEST)]
)
def test_logprobs(count: int, top: list[dict[str, float]]) -> None:
    _, answer = posted({"prompt": "分开", "logprobs": count})
    expected = {"text_offset": [0, 1], "token_logprobs": [-0.5, -2.5], "tokens": ["后", "0"], "top_logprobs": top}
    assert answer["choices"] == [choice(0, "后0", logprobs=expected)]


def test_echo_needs_one_call_per_prompt() -> None:
    client, answer = posted({"prompt": ["分开", "b"], "echo": True})
    assert [each["text"] for each in answer["choices"]] == ["分开后0", "b后0"]
    assert client.engine.calls == 2


@pytest.mark.parametrize(("prompt", "ids"), [("分开", None), ([20, 21], (20, 21))])
def test_echo_with_logprobs(prompt: Any, ids: tuple[int, ...] | None) -> None:
    client, answer = posted({"prompt": prompt, "echo": True, "logprobs": 1})
    expected = {
        "text_offset": [0, 1, 2, 3],
        "token_logprobs": [None, -0.25, -0.5, -2.5],
        "tokens": ["分", "开", "后", "0"],
        "top_logprobs": [None, {"开": -0.25}, {"后": -0.5}, LIKELIEST[1]],
    }
    assert answer["choices"] == [choice(0, "分开后0", logprobs=expected)]
    text = "" if ids else "分开"
    assert client.engine.requests[0] == ScoreQuery(text, model="lyrics-zh", top_k=1, ids=ids, least_predicted=0)


def test_echo_with_max_tokens_0_generates_nothing() -> None:
    client, answer = posted({"prompt": "分开", "echo": True, "logprobs": 0, "max_tokens": 0, "n": 2})
    logprobs = {
        "text_offset": [0, 1],
        "token_logprobs": [None, -0.25],
        "tokens": ["分", "开"],
        "top_logprobs": [None, {"开": -0.25}],
    }
    assert answer["choices"] == [choice(i, "分开", None, logprobs=logprobs) for i in range(2)]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}
    assert [type(request) for request in client.engine.requests] == [ScoreQuery]


def test_prompts_of_a_batch_are_read_a_few_at_a_time() -> None:
    """Each is tokenized when its turn comes: all at once would hold the event loop for seconds."""

    class Counting(Writer):
        running = most = 0

        async def score(self, request: ScoreQuery) -> ScoreResult:
            self.running += 1
            self.most = max(self.most, self.running)
            for _ in range(10):  # iterations, one of which each prompt begins in
                await asyncio.sleep(0)
            self.running -= 1
            return await super().score(request)

    engine = Counting()
    body = {"prompt": ["分开"] * 100, "echo": True, "max_tokens": 0, "logprobs": 1}
    answer = Client(engine).post("/v1/completions", json=body)
    assert [len(choice["logprobs"]["tokens"]) for choice in answer.json()["choices"]] == [2] * 100
    assert engine.most == 4


def test_prompts_begin_one_in_each_iteration_of_the_event_loop() -> None:
    """Each tokenizes its prompt when it begins: others have their turns between them."""
    order: list[str] = []

    async def work(number: int) -> int:
        order.append(str(number))
        asyncio.get_running_loop().call_soon(order.append, "other")
        await asyncio.sleep(0.01)
        return number

    assert asyncio.run(gather([work(number) for number in range(5)])) == list(range(5))
    assert [each for each in order if each != "other"] == list("01234")
    assert order[:4] == ["0", "other", "1", "other"]


@pytest.mark.filterwarnings("error")
def test_prompts_that_have_not_begun_end_with_the_request() -> None:
    """A coroutine that nobody awaits would be reported when it is collected."""
    begun: list[int] = []

    async def work(number: int) -> int:
        begun.append(number)
        raise InvalidRequest("This prompt is wrong; send another one.")

    coroutines = [work(number) for number in range(50)]
    with pytest.raises(InvalidRequest):
        asyncio.run(gather(coroutines))
    assert len(begun) < 50
    assert all(inspect.getcoroutinestate(each) == inspect.CORO_CLOSED for each in coroutines)
