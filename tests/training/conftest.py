"""Tiny networks run fastest on one thread, and their numbers then depend on no machine."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.stand_in_hub import StandInHub, stand_in_hub
from tests.training.small import lyricist, pairs, text, translator
from training import output_folder
from training.config import recipes


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips drawing, which takes longer than training a tiny network; `test_report` checks the picture."""
    monkeypatch.setattr(output_folder, "draw_curves", lambda metrics, path: path.write_bytes(b"no picture"))


@pytest.fixture
def heeded() -> Iterator[None]:
    """A shell's background jobs ignore SIGINT, and what they start begins so, these tests too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Callable[..., Any]], Path]]:
    """Each kind of run in one go, once for all tests."""
    done: dict[str, Path] = {}

    def get(train: Callable[..., Any]) -> Path:
        name = train.__name__
        if name not in done:
            done[name] = tmp_path_factory.mktemp(name)
            train(done[name])
        return done[name]

    yield get


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with corpora; every recipe is a tiny one."""
    monkeypatch.setitem(recipes.TRANSLATORS, "tiny", recipes.Recipe("", translator()))
    monkeypatch.setitem(recipes.LYRICISTS, "small", recipes.Recipe("", lyricist()))
    monkeypatch.chdir(tmp_path)
    given = pairs(40)
    lines = [f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)]
    Path("pairs.tsv").write_text("".join(lines))
    Path("song.txt").write_text(text(300))
    return tmp_path


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """An empty stand-in hub, which huggingface_hub asks in this process, with an empty cache and no token."""
    import huggingface_hub  # here, because few of these tests need it
    from huggingface_hub import constants

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    huggingface_hub.close_session()  # its client has read the environment
    with stand_in_hub() as hub:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield hub
    huggingface_hub.close_session()


@pytest.fixture(autouse=True)
def _short_translations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that has hardly been trained writes to its limit, and every run translates its validation sentences.
    Slow tests compare with other processes, which have the limits of users."""
    if request.node.get_closest_marker("slow"):
        return
    for module in ("training.evaluation.model_outputs", "training.translation.line_translator"):
        monkeypatch.setattr(f"{module}.new_token_limit", lambda source_tokens, most: min(most, source_tokens + 6))


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every score of few sentences has an interval: an eighth of a tuning's time."""
    monkeypatch.setattr("training.evaluation.text_metrics.INTERVAL_RESAMPLES", 50)


@pytest.fixture(autouse=True)
def _few_sentences_of_the_old_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tuning translates them twice."""
    monkeypatch.setattr("training.cli.train_commands.OLD_DOMAIN_SENTENCES", 12)
