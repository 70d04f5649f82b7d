"""The OpenAPI document: what FastAPI finds, and the bodies that we read ourselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from bccb.serve import schemas
from bccb.serve.answers import PROBLEM_TYPE

BODIES: tuple[type[BaseModel], ...] = (
    schemas.BudgetRequest,
    schemas.CampaignRequest,
    schemas.DecisionRequest,
    schemas.OutcomeItem,
    schemas.OutcomeRequest,
    schemas.SettleRequest,
    schemas.Problem,
)
REF = "#/components/schemas/{model}"
WHY = {
    400: "The body is not JSON.",
    401: "An API key is needed.",
    403: "The API key does not allow this.",
    404: "There is no such campaign or decision.",
    409: "The request contradicts what is already so.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "A field is not as it must be.",
    503: "Nothing was done, because it could not be made durable: try again.",
}
ALWAYS = (401, 403)
WITH_BODY = (400, 413, 415, 422)


def takes(model: type[BaseModel], many: bool = False, or_many: bool = False) -> dict[str, Any]:
    """The part of a route that tells its body: one of a model, a list of them, or either."""
    one: dict[str, Any] = {"$ref": REF.format(model=model.__name__)}
    several = {"type": "array", "items": one, "minItems": 1, "maxItems": schemas.MOST_BATCH}
    schema = {"oneOf": [one, several]} if or_many else several if many else one
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers(*statuses: int, body: bool = False) -> dict[int | str, Any]:
    """The part of a route that tells its problems."""
    found = sorted({*statuses, *ALWAYS, *(WITH_BODY if body else ())})
    schema = {"$ref": REF.format(model="Problem")}
    return {
        status: {"description": WHY[status], "content": {PROBLEM_TYPE: {"schema": schema}}}
        for status in found
    }


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        _, bodies = models_json_schema(
            [(model, "validation") for model in BODIES], ref_template=REF
        )
        parts = made.setdefault("components", {})
        parts["schemas"] = {**bodies["$defs"], **parts.get("schemas", {})}
        parts["schemas"].pop("HTTPValidationError", None)
        parts["schemas"].pop("ValidationError", None)
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{}, {"key": []}]
        app.openapi_schema = made
    return app.openapi_schema
