"""The reference of the API: the OpenAPI document as one page of HTML, which needs no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import groupby
from typing import Any

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bccb: the API</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/page.css">
<link rel="stylesheet" href="/page/reference.css">
</head>
<body>
<header class="top"><a class="brand" href="/">bccb</a></header>
<main>
<h1>The API, version {version}</h1>
<p>{about} For programs: <a href="/openapi.json">the OpenAPI document</a>.</p>
{operations}
<h2>Types</h2>
{types}
</main>
</body>
</html>
"""
LIMITS = {
    "minimum": "at least {:,}",
    "maximum": "at most {:,}",
    "minLength": "at least {:,} characters",
    "maxLength": "at most {:,} characters",
    "minItems": "at least {:,} items",
    "maxItems": "at most {:,} items",
    "maxProperties": "at most {:,} entries",
    "pattern": "matching {}",
}


def page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    sections = [
        f"<h2>{escape(tag.capitalize())}</h2>" + "".join(_operation(*each) for each in group)
        for tag, group in groupby(operations, lambda each: each[2]["tags"][0])
    ]
    schemas = document["components"]["schemas"].items()
    return PAGE.format(
        version=escape(document["info"]["version"]),
        about=escape(document["info"]["description"]),
        operations="".join(sections),
        types="".join(_schema(name, schema) for name, schema in schemas),
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<p>{escape(operation['description'])}</p>"]
    parameters = operation.get("parameters", ())
    if parameters:
        rows = (
            (each["name"], f"in the {each['in']}", _about(each["schema"])) for each in parameters
        )
        parts.append(_table("Parameters", rows))
    if "requestBody" in operation:
        parts.append(_table("Body", _contents("", operation["requestBody"])))
    responses = operation["responses"].items()
    rows = (row for status, response in responses for row in _contents(status, response))
    parts.append(_table("Answers", rows))
    title = f"<code><b>{method}</b> {escape(path)}</code> {escape(operation['summary'])}"
    id_ = escape(operation["operationId"])
    summary = f"<summary>{title}</summary>"
    return f'<details class="operation" id="{id_}">{summary}{"".join(parts)}</details>'


def _contents(name: str, described: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """The rows of a body or an answer, one for each media type."""
    for kind, content in described["content"].items():
        about = escape(described.get("description", ""))
        yield name, escape(kind), f"{about} {_about(content['schema'])}"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = (
        (field, "required" if field in required else "", _about(about))
        for field, about in schema.get("properties", {}).items()
    )
    about = f"<p>{escape(schema.get('description', ''))}</p>"
    return (
        f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{about}{_table("", rows)}</section>'
    )


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """A table of names, notes and what is said of them; the last two are HTML."""
    body = "".join(
        f"<tr><th><code>{escape(name)}</code></th><td>{note}</td><td>{about}</td></tr>"
        for name, note, about in rows
    )
    return f"<table><caption>{title}</caption>{body}</table>" if body else ""


def _about(schema: Mapping[str, Any]) -> str:
    """What a value is, with what is said of it."""
    said = [_type(schema)]
    if "default" in schema:
        said.append(f"by default <code>{escape(str(schema['default']))}</code>")
    about = ", ".join(said)
    return f"{about}. {escape(schema['description'])}" if "description" in schema else about


def _type(schema: Mapping[str, Any]) -> str:
    """What a value must be.

    >>> _type({"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 9})
    'list of integer (at least 1) (at most 9 items)'
    """
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(each) for each in schema[several])
    if "enum" in schema:
        return "one of " + ", ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    kind = escape(schema.get("type", "anything"))
    if kind == "array":
        kind = f"list of {_type(schema.get('items', {}))}"
    elif isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_type(schema['additionalProperties'])}"
    limits = [text.format(schema[name]) for name, text in LIMITS.items() if name in schema]
    return f"{kind} ({escape(', '.join(limits))})" if limits else kind
