"""All of DeepL's family, as `app.main` includes it."""

from __future__ import annotations

from app.api.deepl import account, documents, glossaries, multilingual, translate

routers = (translate.router, account.router, glossaries.router, multilingual.router, documents.router)
