"""python examples/clients/deepl_sdk.py [http://127.0.0.1:8000]: DeepL's SDK (pip install deepl), with a glossary."""

from __future__ import annotations

import sys

import deepl

if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    client = deepl.DeepLClient("any, where none is needed", server_url=address)
    glossary = client.create_glossary("pub", source_lang="DE", target_lang="EN", entries={"bier": "ale"})
    try:
        print(client.translate_text("ich möchte ein bier", source_lang="DE", target_lang="EN-GB"))
        print(client.translate_text("ich möchte ein bier", source_lang="DE", target_lang="EN-GB", glossary=glossary))
    finally:
        client.delete_glossary(glossary)
