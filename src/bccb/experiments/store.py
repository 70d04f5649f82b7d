"""A store of finished runs: one JSON line each, appended and flushed to disk at once.

What a killed process leaves is a whole number of lines, and perhaps a torn last one, which is cut
off before anything is appended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bccb.errors import InputError, StateError


def _sole_writer(path: Path) -> int | None:
    """A lock that lasts as long as the store: two writers would cut off each other's lines."""
    try:
        import fcntl
    except ImportError:  # a system without it
        return None
    try:
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise InputError("path", str(path), f"in a folder to write to ({error})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StateError(f"another process is writing to {path.parent}: wait for it") from None
    return lock


class Store:
    """Results by key, for one writer at a time.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(Path(folder.name) / "runs.jsonl")
    >>> store.add([("a", {"conversions": 3.0})])
    >>> store.close()
    >>> again = Store(Path(folder.name) / "runs.jsonl")
    >>> again.get("a")
    {'conversions': 3.0}
    >>> again.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _sole_writer(path)
        self._results: dict[str, dict[str, Any]] = {}
        self._whole = 0  # bytes of whole lines
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError("path", str(self.path), f"a file that can be read ({error})") from None
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                self._results[record["key"]] = record["result"]
            except (ValueError, KeyError, TypeError):
                field = f"line {number} of {self.path.name}"
                raise InputError(field, line[:60], "a stored run: delete the file") from None
            self._whole += len(line)

    def close(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        if hasattr(self, "_lock"):  # not where the lock was refused
            self.close()

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored result, if there is one."""
        return self._results.get(key)

    def add(self, results: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Store results durably; they are there for :meth:`get` when this returns."""
        fresh = dict(results)
        lines = [json.dumps({"key": key, "result": fresh[key]}) + "\n" for key in fresh]
        text = "".join(lines).encode()
        try:
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                file.truncate(self._whole)
                file.seek(self._whole)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError("path", str(self.path), f"on a disk with room ({error})") from None
        self._whole += len(text)
        self._results |= fresh
