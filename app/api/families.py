"""The families of the HTTP API, a row for each, in the order of /docs. The service, the OpenAPI document, the errors of
unknown paths and the tests derive from this table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fastapi import APIRouter
from starlette.routing import BaseRoute

from app.api import extensions, generation, google, operations
from app.api.deepl import glossary_routes
from app.api.deepl import routes as deepl
from app.api.errors import ErrorAnswer, FamilyError
from app.api.inspection import routes as inspection
from app.api.libretranslate import routes as libretranslate
from app.api.openai import routes as openai
from app.api.openai import tokenizer_routes
from app.api.route import ApiRoute


class Family(NamedTuple):
    """name: the tag of the OpenAPI document. routers: in the order of the document; the class of their routes has the
    statuses and the form of errors, the places of keys and the forms of bodies. prefixes: unknown paths below them are
    answered in the form of the first router. protocol: of another program; /docs shows the group closed."""

    name: str
    description: str
    routers: tuple[APIRouter, ...]
    prefixes: tuple[str, ...] = ()
    protocol: bool = True

    @property
    def routes(self) -> Iterator[ApiRoute]:
        for router in self.routers:
            yield from (route for route in router.routes if isinstance(route, ApiRoute))

    @property
    def error(self) -> type[FamilyError]:
        return next(self.routes).family_error


FAMILIES = (
    Family(
        "Translate",
        "Texts and files, and the languages that are loaded.",
        (libretranslate.router,),
        protocol=False,
    ),
    Family("Generate", "Continue a text with a character model.", (generation.router,), protocol=False),
    Family(
        "Inspect",
        "What a model does with a text: attention, gates, every number of a pass, scores.",
        (inspection.router,),
        protocol=False,
    ),
    Family(
        "Models",
        "What is loaded; load, reload and unload it.",
        (operations.models_router, operations.admin_router),
        protocol=False,
    ),
    Family(
        "Health",
        "Whether the server is well, for monitors and orchestrators.",
        (operations.health_router,),
        protocol=False,
    ),
    Family(
        "LibreTranslate",
        "What its clients ask beside the routes of Translate, which are its own.",
        (libretranslate.settings_router,),
    ),
    Family(
        "OpenAI",
        "What the SDKs of OpenAI ask of character models.",
        (openai.router, tokenizer_routes.router),
        prefixes=("/v1",),
    ),
    Family(
        "DeepL",
        "What the SDKs of DeepL ask: texts, documents, glossaries.",
        (deepl.router, glossary_routes.router, deepl.document_router),
        prefixes=("/v2", "/v3"),
    ),
    Family(
        "Google",
        "What clients of Google's Translation API v2 ask.",
        (google.router,),
        prefixes=("/language", "/google", "/v3/projects"),  # the last is version 3 of Google's API
    ),
    Family(
        "Extensions",
        "What translators in browsers ask.",
        (extensions.router, extensions.deeplx_router, extensions.deepl_router),
    ),
)


def all_routes() -> list[BaseRoute]:
    return [route for family in FAMILIES for router in family.routers for route in router.routes]


def error_form(path: str) -> type[FamilyError]:
    """Of the family with the longest prefix above the path; our own form without one."""
    forms = {prefix: family.error for family in FAMILIES for prefix in family.prefixes if path.startswith(f"{prefix}/")}
    return forms[max(forms, key=len)] if forms else ErrorAnswer
