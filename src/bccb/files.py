"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bccb.errors import InputError


@contextmanager
def written_whole(path: str | os.PathLike[str], private: bool = False) -> Iterator[Path]:
    """A draft beside ``path`` that takes its place when the block ends well, or is removed.

    It is in the same folder, because only a rename within a file system is atomic. Only the owner
    can ever read a ``private`` file.
    """
    try:
        target = Path(path).resolve()  # links are followed and stay links
        draft = target.with_name(f".{uuid.uuid4().hex}")
        plain = not target.exists() or target.is_file()
    except (OSError, ValueError) as error:
        raise InputError("path", str(path), f"a file that can be written ({error})") from None
    if not plain:
        raise InputError("path", str(path), "a regular file, not a folder or a device")
    try:
        if private:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
        _keep_name(target.parent)
    except OSError as error:
        raise InputError("path", str(path), f"a file that can be written ({error})") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _keep_name(folder: Path) -> None:
    """Make the new name durable, too, on systems that can sync folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
