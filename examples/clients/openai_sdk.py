"""python examples/clients/openai_sdk.py [http://127.0.0.1:8000]: a lyricist writes (pip install openai)."""

from __future__ import annotations

import sys

from openai import OpenAI

if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    client = OpenAI(base_url=f"{address}/v1", api_key="any, where none is needed")
    lyricist = client.models.list().data[0].id
    for chunk in client.completions.create(model=lyricist, prompt="分开", max_tokens=20, seed=7, stream=True):
        print(chunk.choices[0].text, end="", flush=True)
    print()
