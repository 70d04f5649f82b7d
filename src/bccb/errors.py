"""The errors that bccb raises on purpose. All are subclasses of :class:`BccbError`."""

from __future__ import annotations

import errno
from typing import Any

LONGEST = 200  # characters of a value in a message


def shown(value: object, longest: int = LONGEST) -> str:
    """A value as a message shows it, cut where it is long.

    >>> shown("a" * 300, 5)
    "'aaaa…"
    """
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


def is_shortage(error: BaseException) -> bool:
    """Whether the system is short of memory, files or disk space, which may pass by itself.

    >>> is_shortage(MemoryError()), is_shortage(OSError(errno.EPERM, "not permitted"))
    (True, False)
    """
    short = isinstance(error, OSError) and error.errno in SHORTAGES
    return short or isinstance(error, MemoryError)


class BccbError(Exception):
    """The base class of bccb's errors. They can be pickled, to pass between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[BccbError], args: tuple[Any, ...], fields: dict[str, Any]) -> BccbError:
    """An error from its message and fields, without calling its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InputError(BccbError, ValueError):
    """A value is not allowed; the message names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} is {shown(value)}, but must be {allowed}")
        self.field = field


class StateError(BccbError):
    """A call does not fit the state of the object, such as an outcome reported twice."""


class FitError(BccbError):
    """A model cannot be fitted on the rows it was given."""


class MissingExtraError(BccbError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed: pip install 'bccb[{extra}]', or in a checkout "
            f"pip install -e '.[{extra}]'"
        )
