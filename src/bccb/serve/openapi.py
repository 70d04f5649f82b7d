"""The OpenAPI document, made from the operations and the wire types."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from bccb import __version__, wire
from bccb.serve.answers import JSON, PROBLEM_TYPE
from bccb.serve.body import FILE
from bccb.serve.operation import Operation

ABOUT = "Whom to treat, one user at a time, under a budget that is never exceeded."
REF = "#/components/schemas/{name}"
WHY = {
    400: "The body is not JSON.",
    401: "An API key is needed.",
    403: "The API key does not allow this.",
    404: "There is no such campaign or decision.",
    409: "The request contradicts what is already so.",
    413: "The body is too large.",
    415: "The body has another content type.",
    422: "A field is not as it must be.",
    503: "Nothing was done, because it could not be made durable: try again.",
}
WITH_KEY = (401, 403)
WITH_BODY = (400, 413, 415, 422)
PARAMETERS = {  # of paths
    "campaign_id": Annotated[str, msgspec.Meta(examples=["c0123456789"])],
    "decision_id": wire.DecisionId,
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    schemas = _Schemas(operations)
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "bccb", "description": ABOUT, "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


class _Schemas:
    """JSON schemas of all types that operations take and answer."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        types: list[Any] = [wire.Problem, wire.UsersHorizon, wire.TimeHorizon]
        types += PARAMETERS.values()
        types += [each.takes for each in operations if each.takes not in (None, bytes)]
        replies = (reply for each in operations for reply in each.replies.values())
        types += [reply.kind for reply in replies if reply.kind is not None]
        made, components = msgspec.json.schema_components(
            types, schema_hook=_horizon, ref_template=REF
        )
        self._types = types
        self._made, self.components = (_as_json_schema(part) for part in (made, components))

    def of(self, kind: Any) -> Any:
        """The schema of a type."""
        return self._made[next(i for i, each in enumerate(self._types) if each == kind)]


def _horizon(_: type) -> dict[str, Any]:
    names = (wire.UsersHorizon.__name__, wire.TimeHorizon.__name__)
    return {"oneOf": [{"$ref": REF.format(name=name)} for name in names]}


def _as_json_schema(made: Any) -> Any:
    """With patterns as JSON Schema writes them."""
    return json.loads(json.dumps(made).replace(r"\\Z", "$"))


def _described(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.name.replace("_", " ").capitalize(),
        "description": operation.description,
        "operationId": f"{operation.name}_{operation.method.lower()}",
        "responses": _responses(operation, schemas),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.of(PARAMETERS[name])}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in operation.query.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.takes is bytes:
        file = {FILE: {"schema": {"type": "string", "format": "binary"}}}
        described["requestBody"] = {"required": True, "content": file}
    elif operation.takes is not None:
        content = {JSON: {"schema": schemas.of(operation.takes)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, (kind, description, content) in operation.replies.items():
        if content is None:
            content = {JSON: {"schema": schemas.of(kind)}}
        responses[str(status)] = {"description": description, "content": content}
    problems = {*operation.problems}
    problems |= set(WITH_KEY) if operation.scope is not None else set()
    problems |= set(WITH_BODY) if operation.takes is not None else set()
    schema = schemas.of(wire.Problem)
    for status in sorted(problems):
        content = {PROBLEM_TYPE: {"schema": schema}}
        responses[str(status)] = {"description": WHY[status], "content": content}
    return responses
