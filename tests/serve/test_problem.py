from __future__ import annotations

import errno

import pytest

from bccb.serve import campaigns
from bccb.serve.problem import problem_of
from serve.service import TERMS, Service, refused


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM])
def test_a_shortage_will_pass_and_is_no_error_of_ours(number: int) -> None:
    problem = problem_of(OSError(number, "out of it"), "see the log")
    assert (problem.status, problem.detail) == (503, "out of it: try again later")


@pytest.mark.parametrize("error", [OSError("strange"), ValueError("strange"), OSError(errno.EPERM)])
def test_whatever_else_is_ours(error: Exception) -> None:
    problem = problem_of(error, "see the log")
    assert (problem.status, problem.detail) == (500, "see the log")


def test_no_descriptor_at_an_opening_is_answered_503(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(campaigns, "open_campaign", short)
    refused(service.post("", {**TERMS, "name": "short"}), 503, kind="not-durable")
    monkeypatch.undo()
    monkeypatch.setattr(service.engine, "_try_again", 0.0)  # the pause is over
    assert service.open(name="short")["status"] == "running"
