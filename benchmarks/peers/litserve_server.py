"""The same network behind LitServe: its own batching, one worker on the CPU.

python -m benchmarks.peers.litserve_server --checkpoint FOLDER --port PORT --beam 1 --threads 1 --batch 32 --window-ms 5
"""

from __future__ import annotations

import argparse
from typing import Any

import litserve

from benchmarks.peers.translator import Translator, arguments


class TranslatorAPI(litserve.LitAPI):
    """`setup` runs in LitServe's worker process."""

    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__(
            max_batch_size=given.batch,
            batch_timeout=given.window_ms / 1000 if given.batch > 1 else 0.0,
            api_path="/translate",
        )
        self.given = given

    def setup(self, device: str) -> None:
        self.translator = Translator(self.given.checkpoint, beam=self.given.beam, threads=self.given.threads)

    def decode_request(self, request, **_: Any) -> str:  # type: ignore[no-untyped-def]  # LitServe reads its type
        return str(request["q"])

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, x: Any, **_: Any) -> Any:
        return self.translator.translate([x])[0] if isinstance(x, str) else self.translator.translate(x)

    def unbatch(self, output: list[str]) -> list[str]:
        return output

    def encode_response(self, output: str, **_: Any) -> dict[str, str]:
        return {"translatedText": output}


def main() -> None:
    given = arguments(__doc__ or "")
    server = litserve.LitServer(
        TranslatorAPI(given), accelerator="cpu", devices=1, workers_per_device=1, timeout=120, fast_queue=False
    )
    server.run(
        host="127.0.0.1",
        port=given.port,
        num_api_servers=1,
        log_level="warning",
        generate_client_file=False,
        access_log=False,
    )


if __name__ == "__main__":
    main()
