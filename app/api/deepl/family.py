"""All of DeepL's family, as `app.main` includes it."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deepl import account, glossaries, multilingual, translate

router = APIRouter()
for part in (translate, account, glossaries, multilingual):
    router.include_router(part.router)
