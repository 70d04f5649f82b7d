"""The place of a ledger's file: private, owned by one process, and where it was."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from bccb.errors import StateError
from bccb.ledger.port import LedgerError

Identity: TypeAlias = tuple[tuple[int, int], ...]  # device and inode of the file and its log


class Place:
    """The file at a path, as the operating system sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None  # of the file itself
        self._lock: int | None = None  # of the lock beside it
        self._identity: Identity | None = None
        self._beside = f"{path.resolve()}-wal"

    def check_alone(self) -> None:
        """Refuse a file with several names, and a log that has lost its file.

        SQLite drops a log that it finds beside an empty file, and the ledger may have been moved.
        """
        if self.path.is_file():
            self._check_one_name(os.stat(self.path))
        elif os.path.exists(self._beside):
            reason = f"there is a write-ahead log {self._beside}, but no ledger {self.path}"
            raise LedgerError(f"{reason}: move the ledger back beside it")

    def make_private(self) -> None:
        """Create the file for its owner alone, because users' features are in it.

        The descriptor stays open until SQLite has closed its own: closing any descriptor of a file
        drops all POSIX locks that the process has on it, SQLite's among them.
        """
        with suppress(OSError):  # SQLite says why it cannot be opened
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def release(self) -> None:
        """Close our descriptors, which ends their locks."""
        for descriptor in (self._descriptor, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._lock = None

    def own(self) -> None:
        """Lock the file for this process.

        Two locks: one on the file itself, whatever its name, and one beside it. The second holds
        off older versions, and is the only one where a lock on the file would keep SQLite out.
        """
        import fcntl  # Windows has none, and the rest of the package works there

        try:
            # beside the file itself, not beside a link to it
            lock = f"{self.path.resolve()}.lock"
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerError(f"cannot lock the ledger {self.path}: {error.strerror}") from None
        if self._descriptor is None:
            raise LedgerError(f"cannot lock the ledger {self.path}: it cannot be opened")
        # except on Linux, flock and SQLite's own locks get in each other's way
        both = (self._lock, self._descriptor) if sys.platform == "linux" else (self._lock,)
        for descriptor in both:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"another process serves the ledger {self.path}") from None
        self._check_one_name(os.fstat(self._descriptor))

    def remember(self) -> None:
        """From now on the file must stay where it is."""
        self._identity = self._identity or self._find()

    def check(self) -> None:
        """Refuse a file that was removed or replaced: what is written to it would be lost."""
        if self._identity is None:
            return
        try:
            identity = self._find()
        except OSError as error:
            raise LedgerError(f"the ledger {self.path} is gone: {error.strerror}") from None
        if identity != self._identity:
            raise LedgerError(f"the ledger {self.path} was replaced by another file")

    def _find(self) -> Identity:
        files = (os.stat(self.path), os.stat(self._beside))
        self._check_one_name(files[0])
        return tuple((file.st_dev, file.st_ino) for file in files)

    def _check_one_name(self, file: os.stat_result) -> None:
        """Refuse a file with hard links: under each name it would have its own log."""
        if file.st_nlink > 1:
            names = f"the ledger {self.path} has {file.st_nlink} names (hard links)"
            raise LedgerError(f"{names}: remove all but one")
