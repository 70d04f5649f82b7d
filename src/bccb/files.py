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

    In the same folder, so that the rename stays within one file system and is atomic. A ``private``
    file is its owner's alone from the start.
    """
    try:
        target = Path(path).resolve()  # through links, which stay what they are
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
    """Make the new name durable, too, where the system can open folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
