#!/bin/sh
# sh examples/clients/ask.sh [http://127.0.0.1:8000]
base="${1:-http://127.0.0.1:8000}"
# a form, as LibreTranslate's clients send it; a key, where one is needed: -d api_key=KEY
curl -fsS "$base/translate" -d q='ich möchte ein bier' -d source=de -d target=en
# HTML keeps its tags, a glossary is obeyed
curl -fsS "$base/translate" -H 'Content-Type: application/json' \
  -d '{"q": "<p>ich möchte <b>ein bier</b></p>", "source": "de", "target": "en", "format": "html"}'
