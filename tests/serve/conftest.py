"""A started service on a temporary ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service whose clock stands still until a test sets it."""
    made = Service(tmp_path / "ledger.sqlite")
    yield made
    made.stop()
