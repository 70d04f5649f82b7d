"""A store of finished runs: one JSON line each, appended and flushed to disk at once.

What a killed process leaves is a whole number of lines, and perhaps a torn last one, which is cut
off before anything is appended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bccb.errors import InputError, MissingExtraError, StateError


@contextmanager
def open_store(folder: str | Path | None, name: str) -> Iterator[Store]:
    """The store in a folder, which is made where there is none; without a folder a passing one."""
    if folder is None:
        with TemporaryDirectory() as passing, open_store(passing, name) as store:
            yield store
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("folder", str(folder), f"a folder to write to ({error})") from None
    store = Store(Path(folder) / name)
    try:
        yield store
    finally:
        store.close()


def _sole_writer(path: Path) -> Any:
    """A lock that lasts as long as the store: two writers would cut off each other's lines."""
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise MissingExtraError("filelock", "lab") from None
    if not path.parent.is_dir():  # FileLock would make it
        raise InputError("path", str(path), "in a folder to write to (there is none)")
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise StateError(f"another process is writing to {path.parent}: wait for it") from None
    except OSError as error:
        raise InputError("path", str(path), f"in a folder to write to ({error})") from None
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
        self._lock.release()

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._results[key]

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
