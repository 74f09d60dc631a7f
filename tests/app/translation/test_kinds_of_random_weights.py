"""A model that has learnt nothing loses nothing: an imported Marian folder with random weights, served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.app.translation.kinds import served_failures
from tests.app.translation.made_sentences import sentences
from tests.app.translation.test_islands import LOST_SHARE
from tests.serving import Server, serving
from tests.training.importers.marian import folders
from training.importers.marian.convert_checkpoint import import_marian

pytestmark = pytest.mark.slow
AT_ONCE = 50
SHOWN = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("marian")
    import_marian(str(folders.write(root / "folder", eos_bias=4.0)), root / "served" / "de-en")
    with serving(root / "served", root) as server:
        yield server


@pytest.mark.parametrize(
    "kind", ["placeholders", "two_placeholders", "chat_marks", "addresses", "escapes", "icu_messages", "other_scripts"]
)
def test_every_member_of_a_kind_comes_back_whole(server: Server, kind: str) -> None:
    damaged = served_failures(server.base, kind, {("de", "en")}, marks=False)
    assert not damaged, "\n".join([str(len(damaged)), *damaged[:SHOWN]])


def test_each_island_comes_back_once(server: Server) -> None:
    made = sentences(seed=7, count=2500)["de", "en"]
    lost = []
    for start in range(0, len(made), AT_ONCE):
        some = made[start : start + AT_ONCE]
        answer = server.ask("/translate", {"q": [each.text for each in some], "source": "de", "target": "en"})
        for each, text in zip(some, answer["translatedText"], strict=True):
            missing = each.lost_from(text)
            lost += [f"{each.text!r} -> {text!r}: {missing}"] if missing else []
    assert len(lost) <= LOST_SHARE * len(made), "\n".join([f"{len(lost)} of {len(made)}", *lost[:SHOWN]])
