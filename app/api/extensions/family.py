"""All extensions, as `app.main` includes them."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.extensions import deeplx, google, hcfy, imme, kiss

router = APIRouter()
router.include_router(google.router, prefix="/google", include_in_schema=False)  # the same once more
for part in (imme.router, kiss.router, hcfy.router, deeplx.router, deeplx.deepl_router, google.router):
    router.include_router(part)
