"""The documentation agrees with the settings, dependencies and endpoints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from app.settings import PREFIX, Settings
from parlance.__main__ import TRAINING_COMMANDS
from tests.readme import BLOCK, CUT, PAGES, ROOT, TUTORIALS, examples, json_values, same_shape
from tests.tutorial import Tutorial, differing, missing

SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
PROTOCOLS = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        meaning = " ".join((field.description or "").split())
        line = f"| `{PREFIX}{name.upper()}` | `{field.default}` | {meaning} |"
        assert line in SETTINGS, f"docs/settings.md lacks: {line}"


def test_every_dependency_has_a_reason_and_a_pin() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = project.split("dependencies = [")[1].split("]\n")[0]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    table = DESIGN.split("## Why these dependencies")[1]
    for name in re.findall(r'"([a-zA-Z0-9-]+)', section):
        assert re.search(rf"\b{re.escape(name)}\b", table), f"no reason given for {name}"
        assert re.search(rf"^{re.escape(name.lower())}==", pins, re.MULTILINE), f"{name} is not pinned"


def test_every_extra_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    for requirement in (r for extra in project["optional-dependencies"].values() for r in extra):
        name = re.split(r"[^A-Za-z0-9-]", requirement)[0].lower()
        assert re.search(rf"^{re.escape(name)}==", pins, re.MULTILINE), f"{name} is not pinned"


def test_every_documented_command_is_run_by_a_test() -> None:
    run_by = {
        "make serve": "tests/test_readme.py",
        "make test": ".ci/run",
        "make gpu-check": "tests/benchmarks/test_gpu.py",
        "curl -s http://127.0.0.1:8000/": "tests/test_readme.py",
        "curl -s 'http://127.0.0.1:8000/": "tests/test_readme.py",
        "curl -s -X POST http://127.0.0.1:8000/models/": "tests/test_readme.py",
        "curl -s -X POST 'http://127.0.0.1:8000/models/": "tests/test_readme.py",
        "curl -s -X DELETE http://127.0.0.1:8000/models/": "tests/test_readme.py",
        "curl -sN http://127.0.0.1:8000/": "tests/test_readme.py",
        **{f"parlance {command} ": "tests/test_readme.py" for command in TRAINING_COMMANDS},
    }
    for command in (command for example in examples() for command in example.commands):
        assert any(command.startswith(known) for known in run_by), f"no test runs: {command}"
    # of a tutorial all commands are run, in order
    tests = "".join(
        (ROOT / "tests" / name).read_text(encoding="utf-8")
        for name in ("test_readme.py", "test_documented_tutorials.py")
    )
    assert len(TUTORIALS) >= 4
    for page in TUTORIALS:
        assert f'Tutorial("{page}"' in tests, f"no test runs the commands of {page}"


def test_chinese_readme_is_level_with_the_english_one() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    link, heading = re.compile(r"\]\((docs/[^)#]+|http[^)]+)"), re.compile(r"^#+ ", re.MULTILINE)
    assert link.findall(chinese) == link.findall(english)
    assert heading.findall(chinese) == heading.findall(english)
    assert BLOCK.findall(chinese) == BLOCK.findall(english)


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [ROOT / page for page in ("README.md", "README.zh-CN.md")] + sorted((ROOT / "docs").glob("**/*.md"))
    anchors = {page.resolve(): heading_anchors(page.read_text(encoding="utf-8")) for page in pages}
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if target.startswith("http"):
                continue
            file = (page.parent / path).resolve() if path else page.resolve()
            assert file.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors.get(file, {anchor}), f"{page.name} links to {target}"


def heading_anchors(text: str) -> set[str]:
    """As GitHub makes them: lower case, without punctuation, spaces as hyphens."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_endpoint_has_a_documented_example() -> None:
    from tests.app.api.client import described

    for path in described()["paths"]:
        shown = re.compile(":8000" + re.sub(r"\\{\w+\\}", "[^/ ]+", re.escape(path)) + r"(?=[? ']|$)")
        asked = any(shown.search(c.split(" -H")[0]) for e in examples() for c in e.commands)
        # the id that one request creates and the next one names has its row or sentence
        assert asked or f"{path}`" in PROTOCOLS, path


def test_fields_that_a_protocol_refuses_are_documented() -> None:
    from app.api.deepl.schemas import DeepLTranslateRequest
    from app.api.openai.schemas import CompletionRequest

    for heading, schema in (("DeepL", DeepLTranslateRequest), ("OpenAI", CompletionRequest)):
        section = PROTOCOLS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        sentence = section.partition("Refused with 400")[2].partition("\n\n")[0]
        refused = [
            name
            for name, field in schema.model_fields.items()
            if (field.description or "").startswith(("Refused", "Not done here"))
        ]
        assert refused
        assert [name for name in refused if f"`{name}`" not in sentence] == []


def test_no_module_has_a_generic_name() -> None:
    for path in ROOT.glob("[!.]*/**/*.py"):
        assert path.stem not in {"utils", "util", "common", "helpers", "misc"}, path
        assert (path.parent / "__init__.py").exists() or path.parent == Path(), f"{path.parent} is not a package"


def test_answers_are_short_enough_to_read() -> None:
    for page in (*PAGES, *TUTORIALS):
        for kind, body in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            lines = body.splitlines()
            assert kind not in ("json", "text") or len(lines) <= 25, f"{page}: {lines[:3]}"
            assert kind != "json" or max(map(len, lines)) <= 150, f"{page}: {max(lines, key=len)}"


def test_cut_answers_are_compared_by_what_they_show() -> None:
    (shown, other) = json_values('{"a": [1, …], "b": "x…y", …}\n[{"c": 1, …}, …]')
    assert same_shape(shown, {"a": [1, 2, 3], "b": "z", "d": 4}) == []
    assert same_shape(shown, {"a": [], "b": "z"}) != []
    assert same_shape(shown, {"a": [1], "d": 4}) != []
    assert same_shape(other, [{"c": 2, "e": 3}, {"c": 5}]) == []


def test_answers_of_tutorials_are_compared_by_their_words() -> None:
    shown = {"translatedText": "The intercity arrives in Cologne at 14:32.", "code": "a", CUT: 0}
    assert differing(shown, {"translatedText": "the intercity arrives in Cologne at 9:15", "code": "b", "d": 1}) == []
    assert differing(shown, {"translatedText": "Where can I buy two tickets?", "code": "a"}) != []
    assert differing([shown], [{"translatedText": shown["translatedText"]}]) != []
    assert missing("     20 403\n…\nfour words that are cut …", "x\n     19 403\n") == []
    assert missing("Where can I speak to the conductor?", "curl: (7) Failed to connect to localhost") != []


def test_blocks_of_a_tutorial_share_a_shell_and_have_to_succeed(tmp_path: Path) -> None:
    page = Tutorial("docs/tutorials/own-model.md", tmp_path)
    page.text = "```sh\nexport A=8000; mkdir -p b; cd b\n```\n```sh\necho $A; pwd; false\n```\n"
    steps = page.run()
    next(steps)
    with pytest.raises(AssertionError, match=rf"{page.ports['8000']}\s+{tmp_path}/b"):
        next(steps)


def test_every_threat_names_tests_that_are_there() -> None:
    """A name without a file is of the file before it in the row; a file without a folder is looked for."""
    tables = (ROOT / "docs/security.md").read_text("utf-8").split("| threat | defence | test |\n|---|---|---|\n")[1:]
    threats = [row.split("|")[3] for table in tables for row in table.split("\n\n")[0].splitlines()]
    assert len(threats) > 60
    for cell in threats:
        source: Path | None = None
        named = re.findall(r"`([^`]+)`", cell)
        assert named, cell
        for name in named:
            if name.startswith("make "):
                continue
            file, _, test = name.rpartition("::") if "::" in name or name.startswith("test_") else (name, "", "")
            if test.endswith(".py"):
                file, test = test, ""
            if file:
                found = [ROOT / file] if "/" in file else list((ROOT / "tests").rglob(file))
                assert len(found) == 1 and found[0].exists(), f"{file} of {cell}"
                source = found[0]
            if test:
                assert source is not None and f"def {test}(" in source.read_text("utf-8"), f"{test} of {cell}"
