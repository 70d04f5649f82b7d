"""The headers and bodies of answers."""

from __future__ import annotations

import json

import pytest

from bccb.serve.answers import json_response, problem_response
from bccb.serve.problem import ProblemError


@pytest.mark.parametrize(
    ("status", "header", "value"),
    [
        (401, "www-authenticate", "Bearer"),
        (413, "connection", "close"),
        (503, "retry-after", "1"),
    ],
)
def test_a_problem_has_the_header_that_its_status_needs(
    status: int, header: str, value: str
) -> None:
    problem = ProblemError(status, "some-kind", "what is wrong")
    assert problem_response(problem).headers[header] == value
    other = problem_response(ProblemError(409, "some-kind", "what is wrong"))
    assert header not in other.headers


def test_a_problem_is_a_document_with_its_status_kind_and_field() -> None:
    response = problem_response(ProblemError(422, "invalid-field", "age is old", "age"))
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    answer = json.loads(bytes(response.body))
    assert (answer["status"], answer["detail"], answer["field"]) == (422, "age is old", "age")
    assert answer["type"] == "urn:bccb:problem:invalid-field"


def test_an_answer_is_json_with_its_status() -> None:
    response = json_response({"name": "grün", "price": 0.5}, 201)
    assert response.status_code == 201
    assert response.headers["content-type"] == "application/json"
    assert json.loads(bytes(response.body)) == {"name": "grün", "price": 0.5}
