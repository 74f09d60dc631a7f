"""python examples/clients/ask.py [http://127.0.0.1:8000]: the standard library is enough."""

from __future__ import annotations

import json
import sys
import urllib.request


def ask(base: str, path: str, **fields: object) -> dict[str, object]:
    headers = {"Content-Type": "application/json"}  # and, where a key is needed, "Authorization": "Bearer KEY"
    request = urllib.request.Request(base + path, json.dumps(fields).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        found: dict[str, object] = json.load(answer)
    return found


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    print(ask(address, "/translate", q="ich möchte ein bier", source="de", target="en")["translatedText"])
