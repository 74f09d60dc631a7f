"""Runs commands of `training` that are read from standard input, one after the other, each with the network's time
limits that it brings along; answers with the status, standard error and the most memory that this process has had."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from huggingface_hub import close_session, constants

from training.__main__ import main
from training.importers import download


def run() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    download.RETRY_AFTER_S = 0.02
    for line in sys.stdin:
        asked = json.loads(line)
        constants.HF_HUB_DOWNLOAD_TIMEOUT = asked["window_s"] / 2  # type: ignore[assignment]
        constants.HF_HUB_ETAG_TIMEOUT = asked["window_s"]
        close_session()  # with connections of another hub
        said = io.StringIO()
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            status = main(asked["arguments"])
        # not `ru_maxrss`, which a process takes over from the one that has started it
        (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
        peak = int(peak_kb) * 1024
        print(json.dumps({"status": status, "said": said.getvalue(), "peak": peak}), file=answers, flush=True)


if __name__ == "__main__":
    run()
