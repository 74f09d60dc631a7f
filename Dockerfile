# One image that serves and trains. Both need the same torch, which is nine tenths of its size, so a second
# image would save the few hundred kilobytes of training/ and cost a gigabyte of its own; and a checkpoint
# that is trained and served by the same wheels gives the same numbers in both places. Which of the two a
# container does is its command: the default serves, docker-compose.yml's `train` service trains.
#
#   docker build -t parlance:cpu .
#   docker build -t parlance:cuda --build-arg TORCH=cuda .
#   docker build -t parlance:ray --build-arg EXTRAS=otel,ray .
#
# The base is the official image or any Debian with python3 >= 3.11 and python3-venv: nothing below says where
# Python lies, except that both stages have the same base, so that the venv's link to it holds in both.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm


FROM ${BASE_IMAGE} AS dependencies

# cpu: PyTorch's own CPU wheels (no CUDA libraries: 0.2 GB instead of 3 GB to download).
# cuda: the package index's default wheels for Linux, which bring CUDA along.
ARG TORCH=cpu
# otel | otel,ray: for Ray Serve and KubeRay
ARG EXTRAS=otel
# default | the address of an index that has torch | empty: whatever pip's own configuration finds
ARG TORCH_INDEX=default
# empty: torch and CUDA's libraries by their versions alone, for builds of torch that requirements/ does not know,
# such as those for CUDA 12
ARG TORCH_HASHES=required

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore

# pip lives in a venv of its own and installs into /opt/parlance, which never holds an installer. It writes the
# bytecode too: the server's file system is read-only and could not. parlance.pth lets the sources be a layer apart.
WORKDIR /src
RUN set -eu; \
    python3 -m venv /opt/pip; \
    python3 -m venv --without-pip /opt/parlance; \
    /opt/parlance/bin/python -c 'import pathlib, sysconfig; \
pathlib.Path(sysconfig.get_path("purelib"), "parlance.pth").write_text("/opt/parlance/code\n")'

# Every file is checked against the SHA-256 in requirements/, which `python -m tests.container.requirements` writes: an
# index or a mirror that sends another file under the same version ends the build. Sources are not built, for what they
# would need is in no list. torch comes first and alone, so that its index is asked for torch and for nothing else. Its
# headers and test programs (0.2 GB) are of no use where there is no compiler.
COPY constraints.txt ./
COPY requirements requirements
RUN set -eu; \
    index="$TORCH_INDEX"; \
    case "$TORCH:$index" in \
      cpu:default) index=https://download.pytorch.org/whl/cpu ;; \
      cuda:default) index= ;; \
      cpu:*|cuda:*) ;; \
      *) echo "TORCH is '$TORCH': use cpu or cuda" >&2; exit 2 ;; \
    esac; \
    if [ -n "$TORCH_HASHES" ]; then set -- --require-hashes -r "requirements/torch-$TORCH.txt"; \
    else set -- -c constraints.txt torch; fi; \
    /opt/pip/bin/pip --python /opt/parlance/bin/python install --no-deps --only-binary :all: \
      ${index:+--index-url "$index"} "$@"; \
    cd /opt/parlance/lib/python3*/site-packages/torch; \
    rm -rf include test; \
    find bin -type f ! -name torch_shm_manager -delete
RUN set -eu; \
    set -- -r requirements/base.txt; \
    if [ "$TORCH" = cuda ] && [ -n "$TORCH_HASHES" ]; then set -- "$@" -r requirements/cuda.txt; fi; \
    case "$EXTRAS" in \
      otel) ;; \
      otel,ray) set -- "$@" -r requirements/ray.txt ;; \
      *) echo "EXTRAS is '$EXTRAS': use otel, or otel,ray" >&2; exit 2 ;; \
    esac; \
    /opt/pip/bin/pip --python /opt/parlance/bin/python install --no-deps --only-binary :all: --require-hashes "$@"; \
    if [ "$TORCH" = cuda ] && [ -z "$TORCH_HASHES" ]; then \
      /opt/pip/bin/pip --python /opt/parlance/bin/python install -c constraints.txt torch; \
    fi; \
    /opt/parlance/bin/python -c 'import sys, torch; got = "cuda" if torch.version.cuda else "cpu"; \
sys.exit(0 if got == sys.argv[1] else f"TORCH={sys.argv[1]}, but {torch.__version__} is for {got}: set TORCH_INDEX")' \
      "$TORCH"


FROM dependencies AS build

ARG TORCH=cpu

COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY models models
COPY parlance parlance
COPY training training
# The wheel is built in pip's own venv: an isolated build would fetch its tools without their hashes.
RUN set -eu; \
    /opt/pip/bin/pip install --no-deps --only-binary :all: --require-hashes -r requirements/build.txt; \
    /opt/pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheel .; \
    /opt/pip/bin/pip --python /opt/parlance/bin/python install --no-deps --no-index --target /opt/parlance/code wheel/*.whl; \
    /opt/pip/bin/pip --python /opt/parlance/bin/python check

# Native kernels are compiled here for every kind of CPU, for the image itself has no compiler. Where none can be had,
# int8 and lyricists run in PyTorch, slower, and the log says so. The kernels for GPUs need neither a C compiler nor a GPU
# here: Triton, which comes with torch's CUDA wheels, writes machine code for each kind of GPU.
RUN cd /opt/parlance/code; \
    command -v cc >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev; }; \
    gpu=; if [ "$TORCH" = cuda ]; then gpu=models.backends.cuda.build; fi; \
    for kernels in models.backends.native.build $gpu; do \
      /opt/parlance/bin/python -m "$kernels" || echo "where kernels are missing, PyTorch will be slower"; \
    done


FROM ${BASE_IMAGE}

# A fixed number, so that whoever mounts a folder knows whom to give it to. A named volume that is mounted on
# /checkpoints or /data for the first time takes this owner over.
RUN groupadd --gid 10001 parlance \
 && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /tmp \
      --shell /usr/sbin/nologin parlance \
 && install -d -o 10001 -g 10001 /checkpoints /data

# All of it belongs to root: the server cannot change what it runs. Two layers, so that a new version of Parlance
# is a small one: a change in the sources moves neither torch nor the rest.
COPY --from=dependencies /opt/parlance /opt/parlance
COPY --from=build /opt/parlance/code /opt/parlance/code

# /tmp, /data and /checkpoints are the only places that anything here writes to. The caches of CUDA's driver, Triton and
# torch.compile are named because their defaults ask for the user's name, which `docker run --user` may not have, and
# because a /tmp in memory should not be filled: the driver's own limit is gigabytes.
ENV PATH=/opt/parlance/bin:/opt/parlance/code/bin:$PATH \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    CUDA_CACHE_PATH=/tmp/cuda \
    CUDA_CACHE_MAXSIZE=268435456 \
    TRITON_CACHE_DIR=/tmp/triton \
    TORCHINDUCTOR_CACHE_DIR=/tmp/torchinductor \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PARLANCE_CHECKPOINTS=/checkpoints \
    PARLANCE_DATA=/data \
    PARLANCE_HOST=0.0.0.0 \
    PARLANCE_PORT=8000

WORKDIR /srv
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM

# http.client and not urllib: it does not send the question through a proxy named in the environment.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
  CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/health/ready'); sys.exit(c.getresponse().status != 200)"]

# SIGTERM: not ready for PARLANCE_SHUTDOWN_DELAY_S, then drained by PARLANCE_DRAIN_TIMEOUT_S, and the status is 0.
CMD ["parlance", "serve", "--no-demo"]

# Last, because they change most often.
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Parlance" \
      org.opencontainers.image.description="Train, serve and open up sequence models that people can own: translators and lyric generators." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
