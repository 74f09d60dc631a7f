"""What a CUDA device must do as the CPU does (make test-gpu; seconds on any NVIDIA GPU)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Load
from app.engine.worker.model_runner import ModelRunner
from models import checkpoint as checkpoints
from models.backends import select
from models.backends.cuda.launch import Launch
from models.backends.cuda.selection import launcher
from models.backends.torch.cuda_graph import Graphed, Recordable
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.inspection.forced_pass import forced_pass
from models.interface import Prompt
from models.networks.loading import load_network
from tests.app.engine.engine_thread import Running
from tests.models.backends.cuda import reference
from tests.request_builders import generation_request, translation_request
from tests.tiny import ENGLISH, GERMAN
from training.config import recipes
from training.data.sentence_pairs import Pairs
from training.evaluation.scores import score_translator
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
CUDA = torch.device("cuda")


def mixed_requests(translator: bool) -> tuple[list[Prompt], list[DecodingOptions]]:
    rng = random.Random(2)
    prompts, options = [], []
    for number in range(60):
        source = tuple(rng.randrange(4, 12) for _ in range(rng.randrange(1, 9)))
        text = tuple(rng.randrange(1, 20) for _ in range(rng.randrange(1, 9)))
        prompts.append(Prompt((*source, 3), (2,)) if translator else Prompt((), text))
        kind = rng.choice([{}, {"beam_size": 4, "n_best": 2}, {"temperature": 0.9, "top_p": 0.9, "seed": number}])
        options.append(DecodingOptions(max_new_tokens=20, **kind))  # type: ignore[arg-type]
    return prompts, options


@pytest.mark.parametrize("name", ["tiny-de-en", "tiny-lyrics"])
def test_gpu_tokens_equal_cpu_tokens(tiny_checkpoints: Path, name: str) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / name)
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    prompts, options = mixed_requests(translator=checkpoint.config.kind == "translator")
    tokens = []
    for device in ("cpu", "cuda"):
        results = decode(load_network(checkpoint, device), rules, prompts, options, slots=16)
        tokens.append([[h.tokens for h in hypotheses] for hypotheses in results])
    different = sum(a != b for a, b in zip(*tokens, strict=True))
    assert different <= 1  # a tie within rounding may fall the other way


def test_gpu_attention_equals_cpu_attention(tiny_checkpoints: Path) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    maps = [forced_pass(load_network(checkpoint, device), [5, 6, 7, 3], [2, 4, 5]).maps for device in ("cpu", "cuda")]
    for kind in maps[0]:
        assert torch.allclose(torch.stack(maps[0][kind]), torch.stack(maps[1][kind]), atol=1e-5)


def test_bf16_training_learns_and_its_checkpoint_serves_on_the_cpu(tmp_path: Path) -> None:
    config = recipes.TRANSLATORS["tiny"].config
    network = {**config.network, "d_model": 64, "head_width": 16, "encoder_layers": 2, "decoder_layers": 2}
    network |= {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    loop = replace(config.loop, max_epochs=150, ema_decay=0.0, patience=0)
    optimizer = replace(config.optimizer, warmup_updates=20)
    config = replace(config, network=network, loop=loop, optimizer=optimizer, label_smoothing=0.0)
    pairs = Pairs(GERMAN, ENGLISH, "four sentences")
    train_translator(config, pairs, None, TrainingRun(out=tmp_path / "m", device=CUDA, quiet=True))
    checkpoint = checkpoints.read(tmp_path / "m")
    assert score_translator(checkpoint, load_network(checkpoint, "cpu"), pairs)["exact_match"] == 1.0


def test_cuda_worker_serves(tiny_checkpoints: Path) -> None:
    running = Running(EngineSettings(checkpoints=tiny_checkpoints, devices="auto", slots_per_model=8))
    try:
        running.ready()
        assert next(iter(running.pool.status().devices)) == "cuda:0"
        translation = running.do(running.pool.translate([translation_request("ich möchte ein bier", "de", "en")]))[0]
        assert translation.model == "tiny-de-en"
        request = generation_request(prompt="分开", max_new_tokens=24, seed=5)
        first, again = (running.do(running.pool.generate(request)).continuations[0].text for _ in range(2))
        assert len(first) == 24
        assert first == again
    finally:
        running.close()


@pytest.mark.parametrize("name", ["tiny-de-en", "tiny-lyrics"])
def test_cuda_graphs_give_cpu_tokens_under_changing_batches(tiny_checkpoints: Path, name: str) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / name)
    prompts, options = mixed_requests(translator=checkpoint.config.kind == "translator")
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    expected = [[h.tokens for h in each] for each in decode(load_network(checkpoint), rules, prompts, options)]
    runner = ModelRunner("cuda:0", 0, 16, "fp32", 4)
    runner.install(name, runner.read(Load(name, str(tiny_checkpoints / name))))
    model, waiting = runner.models[name], list(range(len(prompts)))
    result = dict[int, list[Hypothesis]]()
    recorded = len(model.decoder.state.recordings)
    assert recorded > 0  # before the first request
    while waiting or model.decoder.requests:
        while waiting and options[waiting[-1]].beam <= model.decoder.free:
            number = waiting.pop()
            model.decoder.join([(number, prompts[number], options[number])])
        result.update(model.decoder.step().finished)
    different = sum([h.tokens for h in result[i]] != expected[i] for i in range(len(prompts)))
    assert different <= 1  # a tie within rounding may fall the other way


@pytest.mark.parametrize("kind", [{}, {"temperature": 0.9, "top_k": 5, "top_p": 0.9}, {"beam_size": 4}], ids=str)
def test_a_steady_step_of_the_decoder_does_not_synchronize(tiny_checkpoints: Path, kind: dict[str, Any]) -> None:
    """The host waits for the event of the step before, and for nothing else."""
    network = load_network(checkpoints.read(tiny_checkpoints / "tiny-de-en"), CUDA)
    graphed = Graphed(cast(Recordable, select.decodable(network, "bf16")))
    decoder = Decoder(graphed, TokenRules(None, (0,)), slots=16, source_length=16, target_length=64)
    options = DecodingOptions(max_new_tokens=30, **kind)
    decoder.join([(number, Prompt((5, 6, 3), (2,)), options) for number in range(16 // options.beam)])
    for _ in range(5):
        decoder.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        steps = [decoder.step() for _ in range(10)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(step.late for step in steps)
    finished = dict(steps[-1].finished)
    while decoder.requests:
        finished.update(decoder.step().finished)
    assert {len(hypotheses[0].tokens) for hypotheses in finished.values()} == {30}


def test_replayed_step_does_not_synchronize(tiny_checkpoints: Path) -> None:
    network = load_network(checkpoints.read(tiny_checkpoints / "tiny-de-en"), CUDA)
    graphed = Graphed(cast(Recordable, select.decodable(network, "bf16")))
    state = graphed.allocate(8, 16, 64)
    graphed.warm_up(state)
    graphed.prefill(state, range(5), [Prompt((5, 6, 3), (2,))] * 5)
    tokens = torch.full((5,), 2, device=CUDA)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            logits = graphed.step(state, tokens)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(logits.isfinite().any(dim=-1).all())


def test_all_warps_of_a_row_read_the_same_position() -> None:
    """`embed` counts the length up that all its warps read: 200 launches of 512 rows, each beside PyTorch."""
    rows, width, length = 512, 512, 256
    launch = launcher(CUDA)
    tables = [torch.randn(length, width, device=CUDA, dtype=torch.bfloat16) for _ in range(2)]
    tokens, ids = (torch.arange(size, device=CUDA) % length for size in (rows, length))
    lengths = [torch.zeros(rows, dtype=torch.long, device=CUDA) for _ in range(2)]
    for _ in range(200):
        embedded = []
        for run, counted in zip((launch, reference.launch), lengths, strict=True):
            positions = torch.empty(rows, dtype=torch.int32, device=CUDA)
            x = torch.empty(rows, width, dtype=torch.bfloat16, device=CUDA)
            arguments = tokens, counted, ids, *tables, positions, x, 1.0, length, width
            run(Launch("embed", (rows, 1, 1), arguments, (("BLOCK", 512),)))
            embedded.append(x)
        assert torch.equal(*embedded) and torch.equal(*lengths)
