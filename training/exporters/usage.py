"""The README of an exported folder: the model card, with a program that uses the folder."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import yaml

from models.checkpoint import CheckpointConfig
from models.model_card import CARD, front_values, read_card, split_card
from models.model_names import HUB_NAME
from models.networks.recurrent import RecurrentLanguageModel
from models.tokenizer import MarianTokenizer, SentencePieceTokenizer, Tokenizer
from training.config.run_file import RUN_FILE
from training.exporters.exportable import TITLES, Exportable, Form
from training.report.card_writer import front_matter

LIBRARIES: dict[Form, str] = {
    "marian": "transformers",
    "pegasus": "transformers",
    "ctranslate2": "ctranslate2",
    "onnx": "onnxruntime",
}
REQUIREMENTS: dict[Form, str] = {
    "marian": "transformers torch sentencepiece",
    "pegasus": "transformers torch sentencepiece",
    "ctranslate2": "ctranslate2 sentencepiece",
    "onnx": "onnxruntime sentencepiece",
}
NOT_EXPORTED = re.compile(rf"^- .*`{RUN_FILE}` beside this file.*\n", re.MULTILINE)  # a line of a model card
EXAMPLE = "EXAMPLE"  # in a program: the text to translate, or to continue


def template(name: str) -> str:
    """A program with fields in braces, as `str.format` fills them in."""
    return (files("training.exporters") / "programs" / f"{name}.txt").read_text(encoding="utf-8")


def write_readme(model: Exportable, folder: Path, form: Form, notes: Sequence[str]) -> None:
    """README.md in `folder`. notes: sentences on what differs there."""
    front, body = split_card(read_card(model.checkpoint.folder / CARD))
    head, body = _front_matter(model, front, form), NOT_EXPORTED.sub("", body.strip())
    opening, *sections = re.split(r"^(?=## )", body or f"# {model.checkpoint.name}", maxsplit=1, flags=re.MULTILINE)
    differs = "".join(f"\n{note}\n" for note in notes)
    own = f"""## Use

Exported from Parlance for {TITLES[form]}. After `pip install {REQUIREMENTS[form]}`, in this folder:

```python
{program(model, form)}```
{differs}"""
    parts = [head, opening.strip(), own, *sections]
    (folder / CARD).write_text("\n".join(f"{part.strip()}\n" for part in parts), encoding="utf-8")


def _front_matter(model: Exportable, front: str, form: Form) -> str:
    """The original card's values, with this form's library and, for a model from the Hub, its name."""
    values, config = front_values(front), model.config
    if values is None:
        languages = [code for code in (config.source_language, config.target_language) if code]
        licence = config.training.get("licence")
        task = "text-generation" if config.kind == "lyrics" else "translation"
        made = front_matter(licence.split(", ") if isinstance(licence, str) else [], languages, task)
        values = yaml.safe_load(made.strip("-"))
    origin = config.training.get("imported_from")  # a tuned model's card names its base_model already
    if isinstance(origin, str) and HUB_NAME.fullmatch(origin):
        values.setdefault("base_model", origin)
    values["library_name"] = LIBRARIES[form]
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=math.inf)}---"


def program(model: Exportable, form: Form) -> str:
    """Python that runs in the exported folder and prints the output for one text."""
    config, text = model.config, repr(EXAMPLE)
    if form in ("marian", "pegasus"):
        prefix = "".join(map(model.checkpoint.tokenizers["source"].piece, source_prefix(config)))
        return template("transformers").format(text=repr(prefix + EXAMPLE))
    if isinstance(model.network, RecurrentLanguageModel):
        shape = model.network.config
        piece = model.checkpoint.tokenizers["target"].piece
        opening = next(piece(i) for i in range(shape.vocabulary) if i not in config.suppressed)
        numbers = {"layers": shape.layers, "hidden": shape.hidden, "suppressed": list(config.suppressed)}
        return template("lyricist").format(text=repr(opening), length=100, **numbers)
    source, target = (model.checkpoint.tokenizers[side] for side in ("source", "target"))
    parts = _tokenizer_parts(source, target)
    if form == "ctranslate2":
        added_there = config.source_suffix == (source.special.eos,)
        before, suffix = ([source.piece(i) for i in ids] for ids in (source_prefix(config), config.source_suffix))
        parts["prefix"] = f"{before} + " if before else ""
        parts["suffix"] = f" + {suffix}" if suffix and not added_there else ""
        return template("ctranslate2").format(text=text, limit=config.max_new_tokens, **parts)
    return template("onnx").format(
        text=text,
        target="ids" if has_one_vocabulary(model) else 'read("target_vocab.json")',
        before=f"{list(source_prefix(config))} + " if source_prefix(config) else "",
        after=f" + {list(config.source_suffix)}" if config.source_suffix else "",
        unknown=source.special.unknown,
        **parts,
    )


def source_prefix(config: CheckpointConfig) -> tuple[int, ...]:
    """Of a multilingual translator the first pair's."""
    return config.language_pairs[0].source_prefix if config.language_pairs else config.source_prefix


def has_one_vocabulary(model: Exportable) -> bool:
    """Whether both sides number the same pieces alike."""
    source, target = (model.checkpoint.tokenizers[side] for side in ("source", "target"))
    return source.size == target.size and all(source.piece(i) == target.piece(i) for i in range(source.size))


def _tokenizer_parts(source: Tokenizer, target: Tokenizer) -> dict[str, str]:
    """The lines and expressions of a program that split `text` and join `pieces`."""
    if not isinstance(source, SentencePieceTokenizer | MarianTokenizer):
        words = source.kind == "word"
        split, join = ("text.split()", '" ".join(pieces)') if words else ("list(text)", '"".join(pieces)')
        return {"imports": "", "load": "", "split": split, "join": join}
    names = 'sentencepiece.SentencePieceProcessor(model_file=f"{side}.spm") for side in ("source", "target")'
    join = "joiner.decode(pieces)"
    return {
        "imports": "\nimport sentencepiece",
        "load": f"splitter, joiner = ({names})\n",
        "split": "splitter.encode(text, out_type=str)",
        "join": f'{join}.replace("▁", " ").strip()' if isinstance(target, MarianTokenizer) else join,
    }


def notes_on(model: Exportable, form: Form) -> list[str]:
    """Sentences on what the form does otherwise than this project."""
    return [sentence for sentence, holds in _possible_notes(model, form).items() if holds]


def _possible_notes(model: Exportable, form: Form) -> Mapping[str, bool]:
    config, source = model.config, model.checkpoint.tokenizers.get("source")
    hugging_face, sampled = form in ("marian", "pegasus"), config.suppressed and not config.renormalise
    prefix = "".join(map(source.piece, config.source_prefix)) if source else ""
    tokens = {
        f"`{''.join(map(source.piece, pair.source_prefix))}` for {pair.source} to {pair.target}": None
        for pair in config.language_pairs
        if source
    }
    return {
        f"Put `{prefix}` before every text: Parlance does this by itself.": bool(prefix) and hugging_face,
        f"Every text begins with the token of its languages: {', '.join(tokens)}.": bool(tokens),
        "A text that begins with `>>…<<` begins with a language token there, and with plain text in Parlance.": (
            hugging_face and not tokens and not isinstance(source, MarianTokenizer)
        ),
        "CTranslate2 divides by the probability of the tokens that may be chosen, and Parlance keeps the share of the"
        " others as this model's makers do: scores of beams differ a little.": bool(sampled) and form == "ctranslate2",
        "CTranslate2 ends a beam as soon as it has as many finished hypotheses as the beam is wide, times `patience`;"
        " Parlance when no live hypothesis scores better. With `patience=3` it ended early in none of 200"
        " sentences measured; it still may.": (form == "ctranslate2"),
        f"The position table of the graphs ends at {model.longest:,} tokens.": form == "onnx"
        and config.kind == "translator",
    }
