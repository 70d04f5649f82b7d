"""A started service on a temporary ledger, and a ledger with a past."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from pasts import Past
from postgresql import server

from serve.service import Service

# Modules whose tests run on every engine: those on requests, answers and what is kept. In others
# most of the time goes to policies, to which a ledger is a ledger.
ON_EVERY_ENGINE = {
    *("amounts", "app", "books", "campaigns", "charges", "columns", "corrections", "decisions"),
    *("engine", "engine_errors", "log", "metrics", "operation", "outcomes", "quarantine"),
    *("recovery", "routes", "snapshots", "standing", "views"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on a ledger with every engine."""
    name = metafunc.module.__name__.rpartition("test_")[2]
    if "new_place" in metafunc.fixturenames and name in ON_EVERY_ENGINE:
        metafunc.parametrize("new_place", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes places of new ledgers."""
    if getattr(request, "param", "sqlite") == "postgresql":
        return server().new_place
    numbers = count()
    return lambda: str(tmp_path / f"ledger{next(numbers)}.sqlite")


@pytest.fixture
def place(new_place: Callable[[], str]) -> str:
    """Of one new ledger."""
    return new_place()


@pytest.fixture
def service(place: str) -> Iterator[Service]:
    """A service whose clock stands still until a test sets it."""
    made = Service(place)
    yield made
    made.stop()


@pytest.fixture
def file_service(tmp_path: Path) -> Iterator[Service]:
    """The same on a file, for tests that change it by hand."""
    made = Service(tmp_path / "ledger.sqlite")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Two campaigns with a few hundred events of all kinds and no snapshot."""
    made = Past(tmp_path_factory.mktemp("past") / "ledger.sqlite", seed=1)
    made.live(300)
    made.close()
    return made


@pytest.fixture
def path(past: Past, tmp_path: Path) -> Path:
    """A copy of that ledger."""
    return Path(shutil.copy(past.path, tmp_path / "ledger.sqlite"))
