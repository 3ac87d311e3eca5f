"""Owns the parts of OpenAI's dialect that services share: its errors, and its list of models."""

from typing import Literal

from fastapi import APIRouter

from services.chassis.app import router
from services.chassis.requests.handling import handled
from services.contracts.base import Count, Wire
from services.contracts.problem import Problem


class OpenAIFault(Wire):
    """The error itself; `param` is the field at fault, if there is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Wire):
    """The body of an error."""

    error: OpenAIFault


def openai_wording(problem: Problem) -> tuple[int, OpenAIError]:
    """Returns status and body as OpenAI sends them: 400 for a faulty body, our kind as `code` where OpenAI has none."""
    kind = problem.type.removeprefix("urn:problem:")
    param: str | None = None
    code: str | None = kind
    match problem.status:
        case status if status in (400, 422):
            status, name, code = 400, "invalid_request_error", None
            param = problem.errors[0].field.partition(".")[0] if problem.errors else None  # OpenAI names no item
        case 401:
            name, code = "invalid_request_error", "invalid_api_key"
        case 404 if kind == "unknown-model":
            status, name, param, code = 404, "invalid_request_error", "model", "model_not_found"
        case 429:
            status, name, code = 429, "rate_limit_error", "rate_limit_exceeded"
        case status if status >= 500:
            name = "server_error"
        case status:
            name = "invalid_request_error"
    return status, OpenAIError(error=OpenAIFault(message=problem.detail, type=name, param=param, code=code))


class ListedModel(Wire):
    """The served model, as `X-Model` names it. `created` is 0: no file of a model has its time."""

    id: str
    object: Literal["model"] = "model"
    created: Count = 0
    owned_by: str = "local"


class ModelList(Wire):
    """The one model of this process."""

    object: Literal["list"] = "list"
    data: tuple[ListedModel, ...]


def models_router(served: str) -> APIRouter:
    """Returns the routes: `GET /v1/models`, which lists the model `served`."""
    routes = router(OpenAIError)

    @routes.get("/v1/models")
    @handled("control", scope="search")
    async def list_models() -> ModelList:
        return ModelList(data=(ListedModel(id=served),))

    return routes
