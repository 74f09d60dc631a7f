"""What options are called here that other programs name differently (fairseq, OpenNMT, Marian, JoeyNMT, Hugging Face's
Trainer, nanoGPT, CTranslate2), for the message about an unknown option."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Sequence

TRANSLATOR, LYRICS, TRANSLATE = "translator", "lyrics", "translate"
BATCH_TOKENS = "--tokens-per-batch TOKENS: a batch is counted in tokens of its longer side, padding included"

_SAME = {
    "--learning-rate RATE": "--lr --rate --eta --learn-rate",
    "--max-epochs EPOCHS": (
        "--epochs --epoch --num-epochs --n-epochs --max-epoch --num-train-epochs --after-epochs -e"
    ),
    "--max-epochs or --max-minutes: a run has no limit in updates": (
        "--steps --max-steps --num-steps --train-steps --total-steps --updates --max-updates --max-update "
        "--max-iters --iters --iterations --after-batches --num-updates"
    ),
    "--max-minutes MINUTES": "--time --max-time --timeout --time-limit --hours --minutes --stop-time-hours",
    "--warmup-updates UPDATES": "--lr-warmup --warm-up --num-warmup-steps",
    "--warmup-updates UPDATES, in place of steps": "--warmup-steps --warmup-ratio --warmup-iters",
    "--patience VALIDATIONS": "--early-stopping --early-stop --early-stopping-patience --stop-after",
    "--out FOLDER": (
        "--output --output-dir --out-dir --outdir --save-dir --save --save-to --save-path --save-model "
        "--model-dir --model-path --checkpoint-dir --ckpt-dir -o"
    ),
    "--resume, with the same --out": (
        "--continue --continue-training --restore --resume-from-checkpoint --load "
        "--load-checkpoint --load-from-checkpoint --restart"
    ),
    "--processes N, one for each GPU": (
        "--gpus --gpu --num-gpus --n-gpus --ngpus --gpu-ranks --world-size --distributed-world-size --nproc "
        "--nproc-per-node --devices --num-processes"
    ),
    "--device cuda": "--cuda --use-cuda --use-gpu",
    "--device cpu": "--cpu --no-cuda --use-cpu",
    "--threads N": "--workers --num-workers --cpu-threads --num-threads --cores --jobs -j",
    "--seed SEED": "--random-seed --rng-seed --manual-seed",
    "--config FILE": "--config-file --cfg --yaml -c",
    "--recipe NAME": "--arch --architecture --preset --task --size",
    "--licence TEXT": "--license",
    "--from FOLDER": (
        "--init-from --init-from-checkpoint --from-checkpoint --from-pretrained --finetune --fine-tune --finetune-from "
        "--finetune-from-model --pretrained --pretrained-model --pretrained-checkpoint --pretrain --init --init-model "
        "--initialize-from --warm-start --load-model --base-model --model --checkpoint --continue-from --restore-file "
        "--params --train-from --load-from --trained-model"
    ),
    "--freeze MODULES: there are no adapters": "--lora --use-lora --lora-rank --lora-r --lora-alpha --peft --adapter",
    "--freeze PART": "--freeze-layers --fixed-param-names",
    "--wandb PROJECT": "--wandb-project --use-wandb --with-wandb --weights-and-biases --wandb-name",
    "--mlflow EXPERIMENT": "--mlflow-experiment --mlflow-experiment-name --use-mlflow",
    "--tensorboard, --wandb or --mlflow": "--report-to --logger --log-with --track --tracker",
    "--tensorboard": "--log-dir --logdir --tensorboard-logdir --tensorboard-log-dir --tb",
    "--set loop.precision=fp16": "--fp16 --half --amp --use-amp --mixed-precision --precision --dtype",
    "--set loop.precision=bf16": "--bf16 --bfloat16",
    "--set loop.compile=on": "--compile --torch-compile",
    "--set optimizer.name=NAME": "--optimizer --optim --opt",
    "--set optimizer.schedule=NAME": (
        "--scheduler --schedule --lr-scheduler --lr-scheduler-type --lr-schedule --lr-decay"
    ),
    "--set optimizer.weight_decay=VALUE": "--weight-decay --wd --l2",
    "--set optimizer.clip_norm=NORM": (
        "--clip --clip-norm --grad-clip --gradient-clip --max-grad-norm --clip-grad-norm"
    ),
    "--set optimizer.betas=0.9,0.98": (
        "--betas --beta1 --beta2 --adam-betas --adam-beta1 --adam-beta2 --optimizer-params"
    ),
    "--set loop.gradient_accumulation=BATCHES": (
        "--accumulate --accum --accum-count --update-freq --grad-accumulation --gradient-accumulation "
        "--gradient-accumulation-steps --optimizer-delay --batch-multiplier"
    ),
    "--set loop.ema_decay=DECAY": "--ema --ema-decay --exponential-smoothing --average-decay",
    "--set loop.average_best=COUNT": "--average --average-checkpoints --keep-best --keep-best-ckpts --avg",
    "--set loop.validate_every_updates=UPDATES": (
        "--eval-steps --valid-steps --valid-freq --validate-every --eval-every --validation-freq "
        "--eval-interval --validate-interval-updates --save-steps --save-freq --save-interval-updates"
    ),
    "--set loop.validate_every_epochs=EPOCHS": "--eval-strategy --evaluation-strategy --save-strategy",
    "--set loop.choose_by=bleu": (
        "--metric --metric-for-best-model --best-checkpoint-metric --valid-metrics --eval-bleu"
    ),
}
_TRANSLATOR = {
    "--source CODE": "--src --source-lang --source-language --src-lang --from-lang --sl -s",
    "--target CODE": "--tgt --target-lang --target-language --tgt-lang --to-lang --trg --tl -t",
    "--source CODE --target CODE": "--lang-pair --lang-pairs --language-pair --langs --pair --direction",
    "--train PAIRS": (
        "--data --dataset --corpus --train-set --train-sets --train-file --train-data --trainpref --train-src "
        "--train-tgt --path-src --path-tgt --input"
    ),
    "--valid PAIRS": (
        "--dev --dev-set --dev-file --val --validation --valid-set --valid-sets --valid-file "
        "--validation-file --validpref --eval-file"
    ),
    "--test PAIRS": "--test-set --test-file --testpref",
    BATCH_TOKENS: (
        "--batch-size --batch --bs -b --mini-batch --minibatch --mini-batch-words --batch-tokens --max-tokens "
        "--per-device-train-batch-size --train-batch-size"
    ),
    "--vocab-size PIECES": (
        "--bpe --spm --sentencepiece --bpe-codes --merges --num-merges --bpe-merges --vocabulary-size "
        "--n-symbols --src-vocab-size --tgt-vocab-size --dim-vocabs --voc-limit"
    ),
    "--label-smoothing VALUE": "--smoothing --label-smoothing-factor",
    "--set max_tokens=TOKENS": (
        "--max-length --max-len --max-seq-length --max-sent-length --max-source-length --src-seq-length"
    ),
    "--set network.encoder_layers=N --set network.decoder_layers=N": (
        "--layers --num-layers --n-layers --n-layer --depth --num-hidden-layers"
    ),
    "--set network.encoder_layers=N": "--encoder-layers --enc-layers --enc-depth",
    "--set network.decoder_layers=N": "--decoder-layers --dec-layers --dec-depth",
    "--set network.heads=N": (
        "--heads --num-heads --n-heads --n-head --nhead --attention-heads --transformer-heads "
        "--encoder-attention-heads --num-attention-heads"
    ),
    "--set network.d_model=WIDTH": (
        "--d-model --hidden-size --hidden --dim --dim-emb --embed-dim --embedding-size --width --emb-size "
        "--n-embd --rnn-size --encoder-embed-dim"
    ),
    "--set network.d_ff=WIDTH": (
        "--d-ff --ffn --ffn-dim --dim-feedforward --transformer-ff --encoder-ffn-embed-dim "
        "--transformer-dim-ffn --intermediate-size"
    ),
    "--set network.tied=all": (
        "--tie --tied --tied-embeddings --tied-embeddings-all --share-all-embeddings --share-embeddings"
    ),
    "--set tokenizer.joint=true": "--share-vocab --joined-dictionary --joint-vocab --joint-vocabulary",
    "--set tokenizer.source_sampling=RATE --set tokenizer.target_sampling=RATE": (
        "--bpe-dropout --subword-regularization --sentencepiece-alphas"
    ),
}
_LYRICS = {
    "--corpus FILE": "--train --data --dataset --input --text --train-file --data-dir",
    "--batch-size WINDOWS": "--batch --bs --mini-batch --tokens-per-batch --per-device-train-batch-size",
    "--bptt CHARACTERS": (
        "--seq-length --seq-len --sequence-length --block-size --num-steps --context --context-length --max-length"
    ),
    "--cell CELL": "--rnn --rnn-type --rnn-cell --cell-type",
    "--set network.layers=N": "--layers --num-layers --n-layers --n-layer --depth",
    "--set network.hidden=WIDTH": "--hidden --hidden-size --rnn-size --d-model --n-embd --num-hiddens --width",
    "--set network.embedding=WIDTH": "--embedding --embedding-size --embed-dim --emb-size --dim-emb",
    "--set valid_fraction=SHARE": "--valid --val --valid-size --val-frac --test-size",
}
_TRANSLATE = {
    "--input FILE": "--src --src-file --source-file --input-file --input-path -s",
    "--out FILE": "--output-file --output-path --out-file --hypotheses",
    "--source CODE": "--src-lang --source-lang --source-language --sl",
    "--target CODE": "--tgt-lang --target-lang --target-language --tl",
    "--beam N": "--num-beams --beam-width --beams -b",
    "--n-best N": "--num-hypotheses --num-return-sequences --nbest-size",
    "--scores": "--with-scores --with-score --score --print-scores",
    "--length-penalty POWER": "--lenpen --normalize --alpha",
    "--rerank FOLDER": "--reranker --rescore --reverse-model --channel-model --model2",
    "--rerank-weight W": "--ch-wt --channel-weight --reverse-weight",
    "--max-new-tokens TOKENS": "--max-length --max-len --max-len-b --max-decoding-length --max-output-length",
    "--threads N": "--cpu-threads --num-threads --inter-threads --intra-threads --workers --processes --cores -j",
    "--precision TYPE": "--compute-type --quantization --dtype --int8 --fp16 --half",
    "--device cuda": "--gpu --gpus --cuda --devices",
}


def _by_foreign_name(*tables: dict[str, str]) -> dict[str, str]:
    return {foreign: own for table in tables for own, names in table.items() for foreign in names.split()}


OWN_NAMES = {
    TRANSLATOR: _by_foreign_name(_SAME, _TRANSLATOR),
    LYRICS: _by_foreign_name(_SAME, _LYRICS),
    TRANSLATE: _by_foreign_name(_TRANSLATE),
}
"""Command -> another program's option -> what it is called here."""


FOREIGN_COMMANDS = _by_foreign_name(
    {
        "translator or lyrics": "train training fit learn run main",
        "translator --from FOLDER": "finetune fine-tune tune adapt continue",
        "translate": "generate predict inference infer decode interactive",
        "evaluate": "eval score test validate compare bleu judge",
        "distil": "distill distillation kd",
        "backtranslate": "back-translate backtranslation bt",
        "export or import-marian": "convert converter",
        "inspect-corpus": "inspect data corpus stats clean preprocess prepare",
    }
)
"""Another trainer's command -> what it is called here."""


def command_suggestion(name: str, known: Sequence[str]) -> str:
    """As `suggestion`, of a command."""
    spelled = name.replace("_", "-").lower()
    near = [spelled] if spelled in known else difflib.get_close_matches(spelled, known, 1, 0.75)
    own = FOREIGN_COMMANDS.get(spelled) or (near[0] if near else None)
    return "" if own is None else f", did you mean {own}?"


def suggestion(command: str, name: str, known: Sequence[str]) -> str:
    """What follows "NAME is no option": ", did you mean ...?", or "". Underscores count as hyphens. known: all options
    of the command."""
    spelled = name.replace("_", "-")
    if spelled in known:
        return f", did you mean {spelled}?"
    names = OWN_NAMES.get(command, {})
    own = names.get(spelled) or names.get(spelled.lower())
    if own is None:
        # foreign names closely: "--lora" is no misspelt "--load"
        near = difflib.get_close_matches(spelled, known, 1, 0.75) or difflib.get_close_matches(spelled, names, 1, 0.9)
        own = names.get(near[0], near[0]) if near else None
    return "" if own is None else f", did you mean {own}?"


def unknown_options(arguments: argparse.Namespace) -> Iterator[str]:
    """A sentence for each unknown argument, with the closest known option."""
    options = [argument for argument in arguments.unknown if argument.startswith("-")]
    for option in options:
        name = option.partition("=")[0]
        yield f"{name} is no option{suggestion(arguments.command, name, arguments.known)}"
    if arguments.unknown and not options:
        yield f"{' '.join(arguments.unknown)} belongs to no option"
