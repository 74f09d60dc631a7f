"""One cross-attention map as Nematus and Marian write soft alignments and SoftAlignments reads them.

python -m examples.softalignments checkpoints/everyday "Der Hund schläft." --languages de-en --layer -1

Nothing needs to be installed to write the file. To read it:

pip install softalignments
mkdir -p web/data && softalignments -i attention.txt -f Nematus -o block
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.sentence import arguments, look, refuse
from models.inspection.attention_maps import reduced_map
from models.inspection.selection import AttentionSelection, SelectionError
from models.inspection.soft_alignments import to_nematus


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "", ".txt")
    parser.add_argument("--layer", type=int, default=-1, help="counted from 0; -1 is the last")
    parser.add_argument("--head", type=int, help="one head (default: the mean of all)")
    options = parser.parse_args(given)
    seen = look(options.checkpoint, options.text, options.target, options.languages)
    try:
        heads = None if options.head is None else (options.head,)
        selection = AttentionSelection(layers=(options.layer,), heads=heads, reduce_heads="mean")
        chosen = reduced_map(seen.maps["cross"], selection)
    except SelectionError as error:
        refuse(str(error))
    ends = {"source_ended": seen.source_ended, "target_ended": seen.ended}
    block = to_nematus(chosen.values[0, 0], seen.source, seen.outputs, score=seen.log_probability, **ends)
    options.out.write_text(block, encoding="utf-8")
    names = ", ".join(map(str, chosen.heads))
    print(f"{options.out}: layer {chosen.layers[0]}, heads {names}, {len(seen.outputs)} rows of {len(seen.source)}")


if __name__ == "__main__":
    main()
