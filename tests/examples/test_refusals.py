"""What a user can mend is said in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from examples import bertviz_view, circuitsvis_view, softalignments
from examples.sentence import harmless
from tests.examples.conftest import TEXT


@pytest.mark.parametrize(("script", "package"), [(bertviz_view, "bertviz"), (circuitsvis_view, "circuitsvis")])
def test_a_missing_tool_is_named_with_the_way_to_it(
    script: object,
    package: str,
    translators: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # what Python takes for not installed
    with pytest.raises(SystemExit) as ended:
        script.main([str(translators["equal"]), TEXT])  # type: ignore[attr-defined]
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{package} cannot be imported (")
    assert told.endswith(f"); `pip install {package}` brings it.\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(("name", "told"), [("tiny-lyrics", "give a translator"), ("none", "is not a checkpoint")])
def test_a_folder_without_a_translator(
    name: str, told: str, tiny_checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        softalignments.main([str(tiny_checkpoints / name), TEXT])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_no_token_ends_the_script_that_holds_it() -> None:
    assert harmless(["</script>", "a<b", "</s>"]) == ["‹/script›", "a‹b", "‹/s›"]
