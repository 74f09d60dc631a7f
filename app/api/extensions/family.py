"""All extensions, as `app.main` includes them."""

from __future__ import annotations

from app.api.extensions import deeplx, google, hcfy, imme, kiss

routers = (imme.router, kiss.router, hcfy.router, deeplx.router, deeplx.deepl_router, google.router)
