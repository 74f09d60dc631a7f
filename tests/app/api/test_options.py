"""No option of other programs is ignored where it could change the answer: on every route, it is honoured, named by our
word for it, refused by its name, or harmless for a reason."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

from app.api.option_names import suggested_name
from app.api.request_fields import RequestFields, validation_message
from app.api.route import validate
from tests.app.api.client import Client
from tests.app.api.option_lists import HARMLESS, PROGRAMS
from tests.app.api.smallest_bodies import BODIES, ROUTES

REASONS = {name: reason for reason, names in HARMLESS.items() for name in names.split()}
TEXTS = "a text or language, of which the route reads its own fields alone"


@pytest.fixture(scope="module")
def models() -> dict[str, type[RequestFields]]:
    return {path: route.body_model for path, route in ROUTES.items()}


def spelt_fields(model: type[RequestFields]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def refusal(model: type[RequestFields], fields: dict[str, Any]) -> str | None:
    try:
        validate(model, fields)
    except RequestValidationError as error:
        return validation_message(error.errors())
    return None


def test_smallest_bodies_are_taken(models: dict[str, type[RequestFields]]) -> None:
    assert len(BODIES) > 25
    for path, body in BODIES.items():
        assert refusal(models[path], body) is None, path


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_option_is_ignored(program: str, models: dict[str, type[RequestFields]]) -> None:
    ignored = []
    for path, body in BODIES.items():
        names = spelt_fields(models[path])
        for name, value in PROGRAMS[program].items():
            if name in names:  # the tests of the route show what it does
                continue
            problem = refusal(models[path], {**body, name: value})
            meant = suggested_name(name, names)
            is_said_already = meant is not None and meant in body
            if problem is None and not is_said_already and name not in REASONS:
                ignored.append((path, name))
            if problem is not None and name not in problem:
                ignored.append((path, name))
            if problem is None and REASONS.get(name) == TEXTS and meant is not None and meant not in body:
                ignored.append((path, name))
    assert not ignored


def test_reasons_are_of_options_that_some_program_has() -> None:
    assert REASONS.keys() <= set().union(*PROGRAMS.values())


NEUTRAL: dict[str, Any] = {
    "repetition_penalty": 1.0,
    "temperature": 1,
    "top_p": 1,
    "min_p": 0,
    "n": 1,
    "logit_bias": {},
    "stop": [],
    "presence_penalty": 0,
    "num_return_sequences": 1,
    "stream": False,
    "do_sample": False,
    "min_new_tokens": None,
    "response_format": {"type": "text"},
    "early_stopping": False,
}


@pytest.mark.parametrize("path", ["/v2/translate", "/translate"])
@pytest.mark.parametrize("value", ["[" * 50_000, '{"a":' * 50_000, "9" * 5000])
def test_value_that_no_parser_takes_is_refused(path: str, value: str) -> None:
    answer = Client().post(path, json=BODIES[path] | {"top_p": value})
    assert answer.status_code == 400
    assert "top_p" in answer.text


@pytest.mark.parametrize("path", sorted(BODIES.keys() - {"/attention", "/walkthrough", "/gates", "/score"}))
def test_neutral_values_are_accepted(path: str, models: dict[str, type[RequestFields]]) -> None:
    drawn = "temperature" in models[path].model_fields
    neutral = NEUTRAL | ({"do_sample": True, "num_return_sequences": None} if drawn else {})
    assert refusal(models[path], {**BODIES[path], **neutral}) is None
    as_form = {name: str(value).lower() for name, value in neutral.items() if isinstance(value, bool | int)}
    if not drawn and path not in ("/translate", "/tokenize", "/detokenize"):
        assert refusal(models[path], {**BODIES[path], **as_form}) is None


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("/v1/completions", {"max_new_tokens": 3}, "There is no field max_new_tokens; did you mean max_tokens?"),
        ("/v1/completions", {"max_new_token": 3}, "There is no field max_new_token; did you mean max_tokens?"),
        ("/v1/completions", {"stop_strings": "x"}, "There is no field stop_strings; did you mean stop?"),
        ("/v1/completions", {"top_logprobs": 3}, "There is no field top_logprobs; did you mean logprobs?"),
        (
            "/v1/completions",
            {"min_tokens": 3},
            "There is no field min_tokens; a minimum length cannot be set, and length_penalty of POST /translate"
            " favours long translations.",
        ),
        (
            "/v1/completions",
            {"num_beams": 3},
            "There is no field num_beams; every token is drawn, and POST /translate searches with a beam.",
        ),
        (
            "/v1/completions",
            {"do_sample": False},
            "There is no field do_sample; every token is drawn, and temperature 0 takes the likeliest.",
        ),
        ("/translate", {"num_beams": 3}, "There is no field num_beams; did you mean beam_size?"),
        ("/translate", {"target_prefix": "I"}, "There is no field target_prefix; did you mean prefix?"),
        ("/translate", {"glossary_id": "x"}, "There is no field glossary_id; did you mean glossary?"),
        (
            "/translate",
            {"num_hypotheses": 3},
            "There is no field num_hypotheses; POST /translate has alternatives, which counts the translations"
            " beside the first.",
        ),
        (
            "/translate",
            {"min_new_tokens": 3},
            "There is no field min_new_tokens; a minimum length cannot be set, and length_penalty of POST /translate"
            " favours long translations.",
        ),
        (
            "/translate",
            {"minNewToken": 3},
            "There is no field minNewToken; a minimum length cannot be set, and length_penalty of POST /translate"
            " favours long translations.",
        ),
        ("/generate", {"top_a": 0.1}, "There is no field top_a; sampling has temperature, top_k, top_p and min_p."),
        ("/generate", {"num_hypotheses": 3}, "There is no field num_hypotheses; did you mean n?"),
        ("/attention", {"num_beams": 3}, "There is no field num_beams; did you mean decode?"),
        (
            "/v2/translate",
            {"num_beams": 3},
            "There is no field num_beams; POST /translate searches with a beam, by beam_size and length_penalty.",
        ),
        (
            "/v2/translate",
            {"translation_memory_threshold": 80},
            "There is no field translation_memory_threshold; there are no styles, instructions and translation memories"
            " here.",
        ),
        (
            "/kiss",
            {"model": "x"},
            "There is no field model; POST /translate chooses among several models of a pair.",
        ),
        (
            "/v2/document",
            {"style_id": "x", "translation_memory_id": "x", "custom_instructions": "x"},
            "3 problems: There is no field custom_instructions, there are no styles, instructions and translation"
            " memories here; There is no field style_id,",
        ),
        ("/language/translate/v2", {"sorce": "de"}, "There is no field sorce; did you mean source?"),
    ],
)
def test_option_is_named_or_refused_by_name(path: str, options: dict[str, Any], sentence: str) -> None:
    body = {**BODIES[path], **options}
    letter = body.pop("file", None)
    sent = {"json": body} if letter is None else {"data": body, "files": {"file": ("a.txt", b"bier")}}
    answer = Client().post(path, **sent)
    assert answer.status_code in (400, 422)
    assert sentence in answer.text.replace('\\"', '"')


def test_many_other_fields_hide_no_option(models: dict[str, type[RequestFields]]) -> None:
    """Some clients send fifty fields of their own."""
    others = {f"own_{number}": number for number in range(50)}
    problem = refusal(models["/v1/completions"], {"prompt": "雨", **others, "min_tokens": 5})
    assert problem is not None and problem.startswith("There is no field min_tokens;")
