"""PyPI `openai`."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.serving import Server

pytestmark = pytest.mark.clients

ASKED = {"prompt": "分开", "max_tokens": 12, "seed": 5, "temperature": 0.7}
SAME = {"prompt": "分开", "max_new_tokens": 12, "seed": 5, "temperature": 0.7}  # to ourselves


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_completes(client: openai.OpenAI, server: Server) -> None:
    result = client.completions.create(model="tiny-lyrics", **ASKED)
    expected = server.ask("/generate", SAME)
    assert result.choices[0].text == expected["text"] != ""
    assert (result.choices[0].finish_reason, result.model, result.object) == (
        "length",
        "tiny-lyrics",
        "text_completion",
    )
    assert result.usage is not None
    assert (result.usage.prompt_tokens, result.usage.completion_tokens, result.usage.total_tokens) == (2, 12, 14)
    assert result.id == f"cmpl-{result._request_id}"


def test_streams(client: openai.OpenAI, server: Server) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = client.completions.create(model="tiny-lyrics", stream=True, stream_options=options, **ASKED)
    texts = [chunk.choices[0].text for chunk in chunks]
    assert "".join(texts) == server.ask("/generate", SAME)["text"]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert (last.choices, last.usage.total_tokens) == ([], 14)
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts)
    assert (counts[-1], chunks[0].usage.prompt_tokens) == (12, 2)


def test_several_prompts_samples_and_tokens(client: openai.OpenAI, server: Server) -> None:
    vocabulary = {token["text"]: token["id"] for token in server.ask("/score", {"text": "分开后的"})["tokens"]}
    ids = [[vocabulary["分"], vocabulary["开"]], [vocabulary["后"], vocabulary["的"]]]
    by_text = client.completions.create(model="tiny-lyrics", n=2, **{**ASKED, "prompt": ["分开", "后的"]})
    by_ids = client.completions.create(model="tiny-lyrics", n=2, **{**ASKED, "prompt": ids})
    texts = [choice.text for choice in by_text.choices]
    assert [choice.text for choice in by_ids.choices] == texts
    assert [choice.index for choice in by_text.choices] == [0, 1, 2, 3]
    expected = server.ask("/generate", {**SAME, "n": 2})
    assert texts[:2] == [expected["text"], expected["alternatives"][0]["text"]]
    streamed = dict.fromkeys(range(4), "")
    for chunk in client.completions.create(model="tiny-lyrics", n=2, stream=True, **{**ASKED, "prompt": ids}):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert list(streamed.values()) == texts


def test_logprobs_and_echo(client: openai.OpenAI, server: Server) -> None:
    (choice,) = client.completions.create(model="tiny-lyrics", logprobs=2, echo=True, **ASKED).choices
    chosen_logprobs = choice.logprobs
    assert chosen_logprobs is not None
    assert "".join(chosen_logprobs.tokens) == choice.text
    assert [choice.text[offset : offset + 1] for offset in chosen_logprobs.text_offset] == chosen_logprobs.tokens
    scored = server.ask("/score", {"text": choice.text, "top_k": 2})["tokens"]
    assert chosen_logprobs.token_logprobs == [None, *[pytest.approx(each["logprob"], abs=1e-4) for each in scored[1:]]]
    for result, expected in list(zip(chosen_logprobs.top_logprobs, scored, strict=True))[1:]:
        likeliest = {candidate["text"]: pytest.approx(candidate["logprob"], abs=1e-4) for candidate in expected["top"]}
        assert {**result, **likeliest} == {expected["text"]: pytest.approx(expected["logprob"], abs=1e-4), **likeliest}
        assert result.keys() == {*likeliest, expected["text"]}
    alone = client.completions.create(model="tiny-lyrics", echo=True, prompt="分", max_tokens=0, logprobs=0)
    assert (alone.choices[0].text, alone.choices[0].logprobs.token_logprobs) == ("分", [None])


def test_stops_and_penalties(client: openai.OpenAI, server: Server) -> None:
    greedy = {**ASKED, "temperature": 0, "max_tokens": 60}
    plain = client.completions.create(model="tiny-lyrics", **greedy).choices[0].text
    stopped = client.completions.create(model="tiny-lyrics", stop=plain[3:5], **greedy).choices[0]
    assert (stopped.text, stopped.finish_reason) == (plain[: plain.index(plain[3:5])], "stop")
    shy = client.completions.create(model="tiny-lyrics", presence_penalty=2, frequency_penalty=2, **greedy)
    assert len(set(shy.choices[0].text)) > len(set(plain))


def test_lists(client: openai.OpenAI) -> None:
    (result,) = client.models.list().data
    assert (result.id, result.object, result.owned_by) == ("tiny-lyrics", "model", "parlance")
    assert client.models.retrieve("tiny-lyrics") == result


def test_refusals_become_the_client_s_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.completions.create(model="nobody", prompt="分开")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model="tiny-lyrics", prompt="分开", n=17)
    assert (bad.value.code, bad.value.param, bad.value.type) == ("invalid_value", "n", "invalid_request_error")
    assert '"n" is 17; this server takes at most 16.' in str(bad.value)
    with pytest.raises(openai.BadRequestError, match="There is no token 99: tiny-lyrics has 26 of them"):
        client.completions.create(model="tiny-lyrics", prompt=[99], stream=True)
    with pytest.raises(openai.NotFoundError, match="nobody"):
        client.models.retrieve("nobody")


def test_key_is_required_with_a_keys_file(guarded: tuple[Server, str]) -> None:
    server, key = guarded
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=key, max_retries=0) as client:
        assert client.completions.create(model="tiny-lyrics", **ASKED).choices[0].text
        assert [each.id for each in client.models.list()] == ["tiny-lyrics"]
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.completions.create(model="tiny-lyrics", **ASKED)
        assert (refused.value.code, refused.value.type) == ("invalid_api_key", "invalid_request_error")
        with pytest.raises(openai.AuthenticationError):
            client.completions.create(model="tiny-lyrics", stream=True, **ASKED)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
