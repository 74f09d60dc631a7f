"""GET /v1/models and /v1/models/{model}: the lyricists. Translators are not among them, for they complete nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.fields import ModelName
from app.api.openai.asking import kind_refused
from app.api.openai.route import OpenAIRoute, documented
from app.api.schemas.openai.models import OpenAIModel, OpenAIModels
from app.api.services import ServicesDependency
from app.api.wording import shown
from app.engine.errors import UnknownModel
from app.engine.jobs import ModelInfo

router = APIRouter(tags=["OpenAI"], route_class=OpenAIRoute)

Name = Annotated[ModelName, Path(description="Name of a lyricist.", examples=["lyrics-zh"])]


@router.get("/v1/models", summary="List lyricists", responses=documented())
async def openai_models(services: ServicesDependency) -> OpenAIModels:
    """Every model that POST /v1/completions takes, in the order in which requests without a model take them."""
    return OpenAIModels(data=[_shown(each) for each in services.engine.models() if each.kind == "lyrics"])


@router.get("/v1/models/{model}", summary="One lyricist", responses=documented(s404="No such lyricist is loaded."))
async def openai_model(model: Name, services: ServicesDependency) -> OpenAIModel:
    """The same of one model."""
    for each in services.engine.models():
        if each.name == model:
            kind_refused(each)
            return _shown(each)
    raise UnknownModel(f"There is no model {shown(model)} here; GET /v1/models lists them.", field="model")


def _shown(info: ModelInfo) -> OpenAIModel:
    return OpenAIModel(id=info.name, created=int(info.loaded_at.timestamp()), max_model_len=info.max_new_tokens)
