"""bertviz's head view or model view of one sentence, as a page.

pip install bertviz
python -m examples.bertviz_view checkpoints/demo-de-en "der Hund schläft" --out attention.html

The page fetches require.js, d3 and jquery from a content delivery network. Cross-attention is a view of its own, for
its rows are named by the tokens that they choose; and so are the decoder's maps where the depths differ, for bertviz
takes the number of layers from the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.sentence import arguments, harmless, look, tool
from models.inspection.interop import to_bertviz


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "", ".html")
    parser.add_argument("--view", choices=["head", "model"], default="head")
    options = parser.parse_args(given)
    draw = getattr(tool("bertviz", "bertviz"), f"{options.view}_view")
    seen = look(options.checkpoint, options.text, options.target)
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
