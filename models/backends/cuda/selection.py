"""Whether the kernels step a network on this GPU: they compute it, they can be had, and a trial agrees with PyTorch."""

from __future__ import annotations

import os
from functools import cache

import torch
from torch import Tensor

from models.backends.cuda.build import UnavailableError
from models.backends.cuda.driver import DriverLauncher
from models.backends.cuda.launch import Launcher
from models.backends.cuda.transformer_step import FEW_ROWS, KernelTransformer, kernel_difference
from models.backends.native.build import CHOICE, NONE
from models.backends.torch import token_choice
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Prompt
from models.networks.transformer import Transformer

TRIALS = ((1, 1), (4, 4), (FEW_ROWS + 1, 1))  # rows and group: each kind of tile
TOLERANCE = {torch.float32: 2**-8, torch.bfloat16: 2**-4, torch.float16: 2**-6}  # of the largest logit; fp32: TF32


def launcher(device: torch.device) -> Launcher:
    """The launcher of a CUDA device; tests without one replace this function. UnavailableError if there is none."""
    major, minor = torch.cuda.get_device_capability(device)
    return shared_launcher(device, 10 * major + minor)


@cache
def shared_launcher(device: torch.device, arch: int) -> Launcher:
    """One for all networks of a device: the kernels that it has loaded stay in the device's memory."""
    return DriverLauncher(arch)


def kernel_transformer(network: Transformer) -> KernelTransformer | str:
    """The network in kernels, or a clause with the reason why PyTorch steps it."""
    if changed := kernel_difference(network):
        return changed
    if os.environ.get(CHOICE) == NONE:
        return f"{CHOICE} is {NONE}"
    try:
        made = KernelTransformer(network, launcher(network.device))
        differences = [disagreement(made, EagerTransformer(network), rows, group) for rows, group in TRIALS]
        tried = choices(made)
    except UnavailableError as error:
        return str(error)
    tolerance = TOLERANCE[made.dtype]
    if failed := [difference for difference in differences if not difference <= tolerance]:  # NaN, too
        return f"the kernels' logits differ from PyTorch's by {failed[0]:.2g} of the largest in a trial"
    for kernel, (result, expected) in tried.items():
        if not torch.allclose(result, expected, rtol=0.0, atol=2**-10):
            return f"the kernel {kernel} differs from PyTorch in a trial"
    return made


def disagreement(ours: KernelTransformer, theirs: EagerTransformer, rows: int, group: int) -> float:
    """The largest difference of logits after three steps, relative to the largest logit."""
    prompts = [Prompt((1,) * (1 + row // group % 5), (1,) * (1 + row % 3)) for row in range(rows)]
    logits: list[Tensor] = []
    for decodable in (ours, theirs):
        state = decodable.allocate(rows, 6, 6)
        decodable.prefill(state, range(rows), prompts)
        for _ in range(3):
            last = decodable.step(state, torch.ones(rows, dtype=torch.long, device=ours.device), group)
        logits.append(last.float())
    return float((logits[0] - logits[1]).abs().max() / logits[1].abs().max())


@torch.inference_mode()
def choices(stepped: KernelTransformer) -> dict[str, tuple[Tensor, Tensor]]:
    """By kernel, what those beside the network's own compute from given numbers, and what PyTorch does: choices of
    tokens, continuations of two beams of four, of which the second has three hypotheses, and caches in a new order.
    Logits differ by half a nat: no rounding moves a choice."""
    device, vocabulary, rows, width = stepped.device, stepped.vocabulary, 8, 4
    ids = torch.arange(rows + 1, device=device)
    ranks = (torch.arange(vocabulary, device=device) * 7919 + ids[:rows, None] * 31) % vocabulary  # 7919: a prime
    logits, fractions = (ranks - vocabulary + 1) / 2, (ids[:rows].double() + 0.5) / rows
    suppressed, end = logits[0].argmax()[None], int(logits[1].argmax())
    kept = logits.index_fill(1, suppressed, -torch.inf)
    values = {"temperature": fractions, "top_k": ids[:rows] % 3 * 2, "top_p": 1.0 - ids[:rows].double() % 4 / 8}
    columns = {name: values.get(name, fractions / 4) for name in token_choice.OPTIONS}
    options = torch.stack([column.view(torch.long) for column in columns.values()])
    drawn = token_choice.draw(kept, columns, fractions, cut=True)
    found = {}
    for name, tokens in (("choose", kept.argmax(dim=1)), ("choose with draws", drawn)):
        inputs = logits.clone(), suppressed, ids.clone(), torch.zeros_like(ids), options, fractions[:, None]
        result = stepped.choose(*inputs, renormalise=False, draw=name != "choose")
        log_probabilities = logits.log_softmax(dim=1).gather(1, tokens[:, None])[:, 0]
        found[name] = result, torch.stack([tokens.float(), log_probabilities])
    found["continue_beams"] = continuations(stepped, logits, suppressed, end, width)
    turned = ids[:rows].view(2, width).flip(1).flatten()
    for name, group in (("reorder", width), ("move", 1)):
        state = stepped.allocate(rows, 1, 6)
        state.lengths.copy_(ids[:rows] % 6 + 1)
        for layer in state.own:
            layer.both.copy_(torch.arange(layer.both.numel(), device=device).view_as(layer.both) % 251)
        before = torch.stack([layer.both for layer in state.own]).float()
        stepped.reorder(state, turned, stepped.shape(state, rows, group))
        written = torch.arange(before.size(2), device=device) < state.lengths[:, None]
        expected = before[:, turned].where(written[None, :, :, None], before)
        found[name] = torch.stack([layer.both for layer in state.own]).float(), expected
    return found


def continuations(
    stepped: KernelTransformer, logits: Tensor, suppressed: Tensor, end: int, width: int
) -> tuple[Tensor, Tensor]:
    """Two beams of hypotheses of these logits [2·width, V], the last of which is missing, continued by the kernels and
    by PyTorch: the continuations, and the next tokens and parents of the hypotheses."""
    device, count = logits.device, len(logits)
    ids, kept = torch.arange(count + 1, device=device), logits.clone()
    rows = torch.stack([ids[:count], torch.where(ids[:count] < count - 1, ids[:count], count)])
    late = torch.arange(2 * width, device=device) >= torch.tensor([[4], [3]], device=device)
    shared = token_choice.suppress(kept, suppressed, renormalise=True)
    values, tokens = kept.topk(min(2 * width, logits.size(1)), dim=1)
    ours, theirs = [(-ids.double() / 32, ids.clone(), ids.clone()) for _ in range(2)]
    tables = logits.clone(), suppressed, torch.zeros_like(ids), rows, late, ours
    results = stepped.continue_beams(*tables, width, end=end, renormalise=True)
    expected = token_choice.continue_beams(values - shared[:, None], tokens, rows, late, theirs, end)
    return flattened(results, *ours, count - 1), flattened(expected, *theirs, count - 1)


def flattened(results: Tensor, totals: Tensor, fed: Tensor, parents: Tensor, count: int) -> Tensor:
    return torch.cat([results.flatten(), fed[:count].float(), parents[:count].float()])
