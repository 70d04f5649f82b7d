"""Steps: progress of work in other processes, before its results arrive.

A seed of a comparison runs every policy, which takes minutes where all of them are compiled. Each
process appends a line to one file for every policy that is done, and a thread here reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TypeAlias

from bccb.evaluate.parallel import OnProgress

Step: TypeAlias = Callable[[str], None]  # takes what is done: a single line

TICK = 0.2  # seconds between looks at the file


@dataclass(frozen=True, slots=True)
class Noted:
    """A step that other processes can take."""

    path: Path

    def __call__(self, what: str) -> None:
        """Append a line; work does not fail where that cannot be done."""
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")


@contextmanager
def steps(progress: OnProgress | None, total: int, jobs: int = 1) -> Iterator[Step]:
    """A function for work to call after each of ``total`` steps, in whatever process that is.

    ``progress`` is called for every step, in this thread with one job and otherwise in another one.

    >>> with steps(print, total=2) as step:
    ...     step("bccb")
    1 2 bccb
    """
    count = 0

    def heard(what: str) -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count, total, what)

    if jobs == 1:
        yield heard
        return
    with TemporaryDirectory(prefix="bccb-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "steps"
        path.touch()
        with _reading(path, heard):
            yield Noted(path)


@contextmanager
def _reading(path: Path, heard: Step) -> Iterator[None]:
    """Hear of every line of a file that grows, to the last; what that raises is raised here."""
    ended, failed = Event(), list[Exception]()

    def read() -> None:
        rest = ""
        with path.open(encoding="utf-8") as file:
            while True:
                last = ended.wait(TICK)
                *lines, rest = (rest + file.read()).split("\n")
                for line in lines:
                    heard(line)
                if last:
                    return

    def read_or_fail() -> None:
        try:
            read()
        except Exception as error:
            failed.append(error)

    reader = Thread(target=read_or_fail, daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    if failed:
        raise failed[0]
