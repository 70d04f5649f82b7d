"""What every test shares: whether kernels are compiled, and how hypothesis runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import numba
import pytest
from hypothesis import settings
from order import in_order
from warm import warm

from bccb.cli import main

COMPILED = not cast("Any", numba.config).DISABLE_JIT

settings.register_profile(
    "bccb", deadline=None, derandomize=True, max_examples=100 if COMPILED else 50
)
settings.load_profile("bccb")


@pytest.fixture(scope="session")
def sized() -> Callable[[int, int], int]:
    """sized(many, few): many where kernels are compiled, few where they run as plain Python."""
    return lambda many, few: many if COMPILED else few


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have the kernels compiled before the processes that run the tests start."""
    processes = getattr(session.config.option, "numprocesses", None)
    is_worker = hasattr(session.config, "workerinput")
    if COMPILED and processes and not is_worker:
        warm()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the long tests, and skip what makes sense only compiled, or only plain."""
    items[:] = in_order(items, getattr(config, "workerinput", {}).get("workercount", 1))
    for item in items:
        if not COMPILED and item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.skip(reason="kernels run as plain Python"))
        if COMPILED and item.get_closest_marker("plain"):
            item.add_marker(pytest.mark.skip(reason="make plain runs it, where nothing compiles"))


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """How a command ends, and what it prints, without line breaks."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bccb", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        shown = capsys.readouterr()
        out, err = (" ".join(text.split()) for text in shown)
        return int(stopped.value.code or 0), out, err

    return command
