"""Decoding options of a request's fields."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from app.api.shared_schemas import decoding_options
from app.errors import InvalidRequest


class Fields(BaseModel):
    beam_size: int = 4
    temperature: float = 0.0
    text: str = "no option"


def test_fields_with_the_names_of_options_are_options() -> None:
    options = decoding_options(Fields(beam_size=3), max_new_tokens=7)
    assert (options.beam_size, options.max_new_tokens, options.n_best) == (3, 7, 1)


def test_options_that_contradict_one_another_are_the_clients_mistake() -> None:
    with pytest.raises(InvalidRequest, match="a beam does not draw") as raised:
        decoding_options(Fields(temperature=0.5))
    assert raised.value.field == "temperature"
