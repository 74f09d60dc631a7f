"""Each option of `ROW_PARAMETERS` is known wherever its kind has to be: a forgotten place is named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from app.api.generation import GenerateRequest
from app.api.openai.schemas import CompletionRequest
from app.api.option_names import foreign_option
from models.backends.cuda import choice_kernels
from models.backends.native import build
from models.backends.native.logit_kernels import chooser_columns
from models.backends.torch.token_choice import OPTIONS, draw, is_cut
from models.decoding.options import ROW_PARAMETERS, RowParameter
from tests.models.decoding.draws import CUTS, tensors

DRAWN = tuple(name for name, row in ROW_PARAMETERS.items() if row.kind == "draw" and name != "seed")
REQUESTED = [row for row in ROW_PARAMETERS.values() if row.kind != "other"]


class Read(dict[str, Tensor]):
    """Columns of which it is noted which are read."""

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        super().__init__(columns)
        self.names = set[str]()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return super().__getitem__(name)


def test_the_rule_in_python_reads_every_option_that_draws() -> None:
    assert OPTIONS == DRAWN, "models/backends/torch/token_choice.py: edit OPTIONS; the order is that of ROW_PARAMETERS"
    columns = Read(tensors([{}]))
    draw(torch.zeros(1, 8), columns, torch.zeros(1, dtype=torch.float64), cut=True)
    assert columns.names == {*DRAWN}, "models/backends/torch/token_choice.py: edit `draw`, and `is_cut` if it cuts"


def test_the_rule_in_c_reads_every_option_that_draws() -> None:
    library = build.fp32_library()
    if library is None:
        pytest.skip("no C compiler")
    names = chooser_columns(library).keys() - {"lengths", "seed"}
    assert names == {*DRAWN}, "draws.c: edit its ROW_PARAMETERS, and `draw_one`, which reads them"


def test_the_rule_on_cuda_reads_every_option_that_draws() -> None:
    assert choice_kernels.OPTIONS == DRAWN, (
        "cuda/choice_kernels.py: edit OPTIONS, and `drawn`; the order is the table's"
    )


def test_every_cut_is_compared_in_python_c_and_cuda() -> None:
    compared = {name for cut in CUTS for name in cut} | {"temperature"}
    assert compared == {*DRAWN}, "tests/models/decoding/draws.py: add a cut to CUTS, and its definition"
    for cut in CUTS:
        assert bool(is_cut(tensors([cut]))) == bool(cut), "models/backends/torch/token_choice.py: edit `is_cut`"


@pytest.mark.parametrize("row", REQUESTED, ids=lambda row: row.name)
def test_every_option_of_sampling_is_a_described_field_of_requests(row: RowParameter) -> None:
    name = row.name
    assert row.sentence, f"models/decoding/options.py: {name} needs a sentence for users"
    for body in (GenerateRequest, CompletionRequest):
        field = body.model_fields[name]
        assert field.description and not field.description.startswith("Not done here"), f"{body}: take {name}"
        assert not field.is_required()


@pytest.mark.parametrize("name", DRAWN)
def test_no_option_is_said_to_be_missing(name: str) -> None:
    option = foreign_option(name, ())
    assert option is not None and "only POST" in option.instead, f"app/api/option_names.toml: {name} is done here now"
    assert option.is_neutral(ROW_PARAMETERS[name].neutral)
