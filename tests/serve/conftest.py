"""A started service on a temporary ledger, and a ledger with a past."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pasts import Past

from serve.service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service whose clock stands still until a test sets it."""
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
