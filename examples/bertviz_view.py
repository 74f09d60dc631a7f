"""bertviz's head view or model view of one sentence, as a page.

pip install bertviz
python -m examples.bertviz_view checkpoints/everyday "Der Hund schläft." --languages de-en --out attention.html

The page fetches require.js, d3 and jquery from a content delivery network. Cross-attention is a view of its own, for
its rows are named by the tokens that they choose; and so are the decoder's maps where the depths differ, for bertviz
takes the number of layers from the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from examples.sentence import arguments, harmless, look, tool
from models.inspection.selection import KINDS

Maps: TypeAlias = Mapping[str, Sequence[Tensor]]
"""Of a forced pass: kind -> [H, Q, K] of each layer, rows summing to 1."""


def to_bertviz(
    maps: Maps, source_tokens: Sequence[str], input_tokens: Sequence[str], output_tokens: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Keyword arguments for bertviz.head_view or model_view, one dictionary per call. bertviz takes the layer numbers
    from the encoder and labels the rows of both decoder maps alike. The decoder's maps are therefore a separate call if
    the depths differ, and cross-attention is one if `output_tokens` label its rows."""
    groups: list[list[str]] = [[kind for kind in KINDS if maps.get(kind)]]
    if output_tokens is not None and "cross" in groups[0]:
        groups = [[kind for kind in groups[0] if kind != "cross"], ["cross"]]
    if len({len(maps[kind]) for kind in groups[0]}) > 1:
        groups[:1] = [["encoder"], [kind for kind in groups[0] if kind != "encoder"]]
    calls = list[dict[str, Any]]()
    for group in filter(None, groups):
        call: dict[str, Any] = {f"{kind}_attention": [weights[None] for weights in maps[kind]] for kind in group}
        if "encoder" in group or "cross" in group:
            call["encoder_tokens"] = list(source_tokens)
        if "decoder" in group or "cross" in group:
            rows = output_tokens if group == ["cross"] and output_tokens is not None else input_tokens
            call["decoder_tokens"] = list(rows)
        calls.append(call)
    return calls


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "", ".html")
    parser.add_argument("--view", choices=["head", "model"], default="head")
    options = parser.parse_args(given)
    draw = getattr(tool("bertviz", "bertviz"), f"{options.view}_view")
    seen = look(options.checkpoint, options.text, options.target, options.languages)
    calls = to_bertviz(seen.maps, *(harmless(each) for each in (seen.source, seen.inputs, seen.outputs)))
    page = ['<!doctype html><meta charset="utf-8"><title>Attention</title>']
    for call in calls:
        kinds = [name.removesuffix("_attention") for name in call if name.endswith("_attention")]
        page += [f"<h2>{', '.join(kinds)}</h2>", draw(**call, html_action="return").data]
        print(f"{', '.join(kinds)}: {len(call[f'{kinds[0]}_attention'])} layers")
    options.out.write_text("\n".join(page), encoding="utf-8")
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, {len(calls)} views")


if __name__ == "__main__":
    main()
