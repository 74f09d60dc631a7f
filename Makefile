# Two commands do everything: `make serve` and `make test`. Paths stay relative, so that a directory with a space in
# its name works; programs run as `python -m`, because a script's first line cannot name such a directory.

PYTHON ?= python3
# Only PARLANCE_HOST and make's own command line open the server to a network: some shells export HOST for other reasons.
ifneq ($(filter environment%,$(origin HOST)),)
override HOST := $(or $(PARLANCE_HOST),127.0.0.1)
endif
HOST ?= $(or $(PARLANCE_HOST),127.0.0.1)
PORT ?= $(or $(PARLANCE_PORT),8000)
CHECKPOINTS ?= checkpoints
# What to serve: OPUS-MT models by pair (de-en,en-fr), names on the Hugging Face Hub, or folders; empty: every checkpoint.
MODEL ?=
# An extra package index for torch, such as PyTorch's own CPU wheels: far smaller where there is no GPU.
TORCH_INDEX ?=
# Of `make train-multi30k`: the direction, the seeds, and how many processes of one thread each train together.
DIRECTION ?= de-en
SEEDS ?= 1
PROCESSES ?= $(shell nproc 2>/dev/null || echo 1)
# What `make bench` measures on besides random weights; none comes with this project.
MULTI30K ?=
CORPUS ?=

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt
export PARLANCE_CHECKPOINTS ?= $(CHECKPOINTS)

.DEFAULT_GOAL := help
.PHONY: help install serve demo test lint fast test-slow test-faults test-browser test-clients test-fuzz test-gpu test-ray test-bench test-sanitizers test-cross gpu-check soak \
  image-check compose-check bench train-multi30k train-multi30k-ensemble wheel clean

help:
	@echo "make serve        install, serve the models that come with Parlance on http://$(HOST):$(PORT)"
	@echo "make install      install only; then . .venv/bin/activate, and parlance --help"
	@echo "make serve MODEL=de-en,en-fr   fetch these translators of OPUS-MT, or others by name on the hub, and serve them"
	@echo "make test         install, lint, types, import contracts, the fast tests"
	@echo "make test-slow    the tests that take minutes (README, tutorials, resume)"
	@echo "make test-faults  kills, hangs and floods of real servers (minutes)"
	@echo "make test-browser the page in Debian's chromium (minutes)"
	@echo "make test-clients other projects' clients, from PyPI and npm, against our server"
	@echo "make test-fuzz    made-up requests to every route, files for every reader, lives of the scheduler: FUZZ_EXAMPLES=2000 FUZZ_ROUTES=PATTERN FUZZ_SEED=0"
	@echo "make test-ray     two replicas on a Ray cluster of this machine, of which one is killed"
	@echo "make test-sanitizers  the C kernels' tests with the sanitizers of addresses and undefined behaviour (GCC)"
	@echo "make test-cross   the C kernels for ARM, cross-compiled and run by QEMU (two minutes)"
	@echo "make test-bench   the tests of benchmarks/, which make test leaves out"
	@echo "make soak         the server under a mix of all its work, kills and overload: MINUTES=60 (default)"
	@echo "make gpu-check    on a GPU, in nine minutes: its tests, decoding against CTranslate2 (OUT=FILE)"
	@echo "make image-check  build the container image, start it, translate a sentence"
	@echo "make bench        the measurements of benchmarks/: MULTI30K=FOLDER CORPUS=FILE"
	@echo "make train-multi30k  the published translators: MULTI30K=FOLDER DIRECTION=de-en|en-de SEEDS='1 2 3'"
	@echo "make train-multi30k-ensemble  the best score en→de: four teachers, two students, reranked: MULTI30K=FOLDER"
	@echo "make wheel        dist/: a wheel with the C kernels of every CPU of this architecture, which needs no compiler"
	@echo "make clean        remove what make has made, but no checkpoints"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "Parlance needs Python 3.11 or newer; this is %d.%d. Say PYTHON=python3.12 or so." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: $(VENV)/bin/python constraints.txt
	@echo "Installing torch (the largest part) ..."
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	@echo "Installing Parlance ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.torch pyproject.toml
	@echo "Installing Parlance and what its tests need ..."
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed
	@echo "Installed. '. $(VENV)/bin/activate' makes parlance a command of this shell; parlance --help lists what it does."

serve: $(VENV)/.installed
	@exec env PARLANCE_HOST="$(HOST)" PARLANCE_PORT="$(PORT)" $(if $(MODEL),PARLANCE_MODELS="$(MODEL)") $(RUN) -m parlance serve

# The models that come with Parlance, anew: a translator, for MINUTES, then a lyricist that has read everyday sentences
# before songs.
demo: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(RUN) -m parlance train translator --multilingual --recipe everyday --processes $(PROCESSES) --threads 1 \
	  --max-minutes $(or $(MINUTES),360) --train 'de<>en,en<>es,en<>zh:everyday' 'de<>en,en<>es,en<>zh:everyday-dictionary' \
	  'de<>en,en<>es,en<>zh:everyday-substituted' de-en,en-de,en-es,es-en,en-zh,zh-en:everyday-careless \
	  --valid 'de<>en,en<>es,en<>zh:everyday-valid' --licence apache-2.0 --out "$(PARLANCE_CHECKPOINTS)/everyday"
	$(RUN) -m parlance train lyrics --corpus everyday-zh --cell gru --recipe small --max-minutes 6 --out "$(PARLANCE_CHECKPOINTS)/.read-zh"
	$(RUN) -m parlance train lyrics --corpus songs-zh --from "$(PARLANCE_CHECKPOINTS)/.read-zh" --set loop.half_weights=true \
	  --licence apache-2.0 --out "$(PARLANCE_CHECKPOINTS)/lyrics-zh"

test: lint fast

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	@$(RUN) -c 'import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())'

# Two processes of one thread: PyTorch's own threads would wait for each other. Bytecode is kept even where the
# environment forbids it: test modules and dozens of servers would be compiled again and again, 9 s of a run.
fast: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(RUN) -m pytest -p no:schemathesis -n 2 --dist loadfile --durations=8

test-slow: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile -m "slow and not gpu" --durations=8

test-bench: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile -m "bench and not slow and not gpu"

# One process: it compiles on all cores first, which takes longer than the tests.
test-sanitizers: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(RUN) -m tests.sanitizers

test-cross: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 -m cross tests/arm

test-faults test-browser test-clients test-fuzz test-gpu test-ray: test-%: $(VENV)/.installed-dev
	$(RUN) -m pytest -m $*; status=$$?; [ $$status -eq 5 ] && echo "no test carries the marker $* yet" || exit $$status

image-check:
	bash .ci/image-check

compose-check:
	bash .ci/compose-check

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	@echo "Installing what the benchmarks are measured against ..."
	@$(PIP) -e '.[dev,bench]'
	@touch $@

bench: $(VENV)/.installed-bench
	@test -n "$(MULTI30K)$(CORPUS)" || \
	  echo "More is measured with MULTI30K=FOLDER (Multi30k's .gz files) and CORPUS=FILE (a text for a lyricist)." >&2
	$(RUN) -m benchmarks.decoding --json
	$(RUN) -m benchmarks.gpu --parts race --json
	$(if $(CORPUS),$(RUN) -m benchmarks.lyrics --corpus "$(CORPUS)" --json)
	$(RUN) -m benchmarks.serving $(if $(MULTI30K),--data "$(MULTI30K)") --json

gpu-check: $(VENV)/.installed-bench
	$(RUN) -m benchmarks.gpu --json $(if $(OUT),--out "$(OUT)")

# An hour that others share says little of latencies: run it on a machine that does nothing else.
soak: $(VENV)/.installed-bench
	$(RUN) -m benchmarks.soak --checkpoints "$(PARLANCE_CHECKPOINTS)" --minutes $(or $(MINUTES),60) --json

train-multi30k: $(VENV)/.installed-bench
	@test -n "$(MULTI30K)" || { echo "Say where Multi30k's .gz files are: make train-multi30k MULTI30K=FOLDER" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(RUN) -m benchmarks.multi30k --data "$(MULTI30K)" --out "$(PARLANCE_CHECKPOINTS)" \
	  --direction $(DIRECTION) --seeds $(SEEDS) --processes $(PROCESSES) --json

# Each line goes on where an interrupted one stopped; the options are those of `benchmarks/LOG.md`, 26 November.
MOSES = OMP_NUM_THREADS=1 $(RUN) -m benchmarks.multi30k --data "$(MULTI30K)" --out "$(PARLANCE_CHECKPOINTS)" \
  --direction en-de --moses --vocab-size 10000 --teachers 2 --at-once 2
train-multi30k-ensemble: $(VENV)/.installed-bench
	@test -n "$(MULTI30K)" || { echo "Say where Multi30k's .gz files are: make train-multi30k-ensemble MULTI30K=FOLDER" >&2; exit 2; }
	$(MOSES) --seeds 1 --student-epochs 14
	$(MOSES) --seeds 2 --student-epochs 8 --student-set network.d_model=192 network.d_ff=384 network.head_width=48 \
	  network.residual_dropout=0.15 network.embedding_dropout=0.15
	$(MOSES) --seeds 1 2 --ensemble all --rerank

# Without kernels of earlier sources, and without what an earlier build has left.
wheel: $(VENV)/.installed-dev
	rm -rf build models/backends/native/csrc/*.so
	$(RUN) -m models.backends.native.build
	$(RUN) -m build --no-isolation --wheel --outdir dist \
	  --config-setting=--build-option=--plat-name=$$($(RUN) -c 'import sysconfig; print(sysconfig.get_platform())')
	rm -rf build models/backends/native/csrc/*.so

clean:
	rm -rf $(VENV) .venv-ctranslate2 .image build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
