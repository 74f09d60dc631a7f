"""CircuitsVis' heads of every layer of one kind of attention, as a page.

pip install circuitsvis
python -m examples.circuitsvis_view checkpoints/everyday "Der Hund schläft." --languages de-en --kind cross

CircuitsVis draws squares alone, so cross-attention is one square over source and decoder inputs together. The page
fetches CircuitsVis' own script from a content delivery network; with --offline that script is in the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from examples.bertviz_view import Maps
from examples.sentence import arguments, harmless, look, tool
from models.inspection.selection import KINDS


def to_circuitsvis(
    maps: Maps, kind: str, source_tokens: Sequence[str], input_tokens: Sequence[str]
) -> list[dict[str, Any]]:
    """Keyword arguments for circuitsvis.attention.attention_heads, one dictionary per layer: attention [H, dest, src].
    circuitsvis draws square matrices only, so cross-attention is one matrix over source and decoder inputs, [[encoder,
    0], [cross, decoder]]: its decoder rows sum to 2, and missing kinds or encoder layers are 0."""
    tokens = {"encoder": list(source_tokens), "decoder": list(input_tokens)}
    tokens["cross"] = tokens["encoder"] + tokens["decoder"]
    count = len(maps[kind])
    matrices = [_joint(maps, layer) for layer in range(count)] if kind == "cross" else maps[kind]
    return [
        {
            "attention": weights,
            "tokens": tokens[kind],
            "attention_head_names": [f"{layer}.{head}" for head in range(len(weights))],
            "mask_upper_tri": kind == "decoder",
            "min_value": 0.0,
            "max_value": 1.0,
        }
        for layer, weights in enumerate(matrices)
    ]


def _joint(maps: Maps, layer: int) -> Tensor:
    cross = maps["cross"][layer]
    heads, inputs, source = cross.shape
    joint = cross.new_zeros(heads, source + inputs, source + inputs)
    joint[:, source:, :source] = cross
    for kind, part in (("encoder", slice(0, source)), ("decoder", slice(source, None))):
        if layer < len(maps.get(kind, ())):
            joint[:, part, part] = maps[kind][layer]
    return joint


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "", ".html")
    parser.add_argument("--kind", choices=KINDS, default="cross")
    parser.add_argument("--offline", action="store_true", help="1.3 MB more for each layer")
    options = parser.parse_args(given)
    draw = tool("circuitsvis.attention", "circuitsvis").attention_heads
    seen = look(options.checkpoint, options.text, options.target, options.languages)
    calls = to_circuitsvis(seen.maps, options.kind, harmless(seen.source), harmless(seen.inputs))
    page = ['<!doctype html><meta charset="utf-8"><title>Attention</title>']
    for layer, call in enumerate(calls):
        drawn = draw(**call)
        # its <div/> would swallow what follows, were it not closed
        page += [
            f"<h2>{options.kind}, layer {layer}</h2>",
            drawn.local_src if options.offline else drawn.cdn_src,
            "</div>",
        ]
        print(f"layer {layer}: {tuple(call['attention'].shape)}")
    options.out.write_text("\n".join(page), encoding="utf-8")
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, {len(calls)} views")


if __name__ == "__main__":
    main()
