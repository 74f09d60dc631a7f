from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import same_answers
from benchmarks.recorded_requests import all_requests

ROUTES = json.loads((Path(__file__).parents[1] / "golden/openapi.json").read_text())["paths"]


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_route_is_requested() -> None:
    requests = [request for request in all_requests() if request.method != "RAW"]
    assert len(requests) > 500
    assert max(Counter(request.name for request in requests).values()) == 1
    for route, methods in ROUTES.items():
        parts = route.split("/")
        for method in methods:
            assert any(
                request.method == method.upper()
                and len(results := request.path.split("?")[0].replace("{{download}}", "/download_file/x").split("/"))
                == len(parts)
                and all(part.startswith("{") or part == other for part, other in zip(parts, results, strict=True))
                for request in requests
            ), f"{method} {route}"


def test_events_are_joined_however_they_were_cut() -> None:
    whole = 'event: token\ndata: {"text":"ab","index":1}\n\nevent: done\ndata: {"seed":7,"timing":{"total_ms":3}}\n\n'
    cut = 'event: token\ndata: {"text":"a","index":1}\n\nevent: token\ndata: {"text":"b","index":1}\n\n' + (
        'event: done\ndata: {"seed":7,"timing":{"total_ms":4}}\n\n'
    )
    other = whole.replace('"ab"', '"ac"')
    assert same_answers.joined_events(whole) == same_answers.joined_events(cut) != same_answers.joined_events(other)


def test_chunks_of_completions_are_joined_by_choice() -> None:
    def chunk(index: int, text: str, tokens: list[str], finish: str | None = None) -> str:
        choice = {"index": index, "text": text, "logprobs": {"tokens": tokens}, "finish_reason": finish}
        return f"data: {json.dumps({'id': 'cmpl-1', 'object': 'text_completion', 'choices': [choice]})}\n\n"

    cut = chunk(0, "a", ["a"]) + chunk(1, "x", ["x"], "stop") + chunk(0, "b", ["b"], "stop")
    whole = chunk(0, "ab", ["a", "b"], "stop") + chunk(1, "x", ["x"], "stop")
    assert same_answers.joined_events(cut) == same_answers.joined_events(whole)


def test_times_and_ids_are_left_out_and_nothing_else() -> None:
    text = '{"request_id":"6b","scores":[-0.5],"created":17,"timing_ms":{"encode":0.4}, "text":"created: 5"}'
    expected = '{"request_id":"#","scores":[-0.5],"created":"#","timing_ms":"#", "text":"created: 5"}'
    assert same_answers.without_varying(text) == expected


def test_equal_recordings_have_no_difference(tmp_path: Path) -> None:
    line = {"name": "open/001", "status": 200, "body": "x"}
    before, after = write(tmp_path / "a", line), write(tmp_path / "b", line)
    assert same_answers.main(["compare", str(before), str(after)]) == 0


@pytest.mark.parametrize("change", [{"status": 400}, {"body": "y"}, {"name": "open/002"}])
def test_a_difference_is_printed_and_fails(
    tmp_path: Path, change: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    line: dict[str, Any] = {"name": "open/001", "status": 200, "body": "x"}
    before, after = write(tmp_path / "a", line), write(tmp_path / "b", line | change)
    assert same_answers.main(["compare", str(before), str(after)]) == 1
    assert "open/001" in capsys.readouterr().out
    assert same_answers.main(["compare", str(before), str(after), "--skip", "^open/"]) == 0
