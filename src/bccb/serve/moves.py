"""Moves: money goes from cells of a campaign that have more to those that have less.

A move is an event of both cells, in one transaction, so that no money is lost or made. It needs
nothing but their rows: whoever decides for them folds the event when they see that the row is
another. If one of them is faster, nothing has happened, and the next look tries again.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bccb.ledger.event import Event, Kind, seal_of
from bccb.ledger.port import Account, ConflictError, Ledger, LedgerError, Mark, concerns_all
from bccb.money import MOST_MONEY
from bccb.serve.books import Books
from bccb.serve.cells import cells_beside, is_first
from bccb.serve.quarantine import Quarantined

EVERY = 1.0  # seconds between looks
APART = 0.1  # of the mean: cells may differ by so much
AT_ONCE = 2  # moves per cell in one look, those included that another process prevents

logger = logging.getLogger("bccb.serve")


class Move(NamedTuple):
    """Money to be moved."""

    giver: Account
    receiver: Account
    micros: int


class Step(NamedTuple):
    """A cell after a move: its row, and the event that leads there."""

    account: Account
    event: Event
    before: Mark


class Moves:
    """Looks after the campaigns in cells whose first cell is held here."""

    def __init__(self) -> None:
        self._next = 0.0

    def look(self, books: Books, at: int, here: Callable[[str], bool]) -> None:
        """Move what is due, if it is time to look."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        for campaign in books:
            if is_first(campaign.id) and here(campaign.id) and not campaign.over(at):
                level(books, at, cells_beside(campaign.id))


def level(books: Books, at: int, cells: Sequence[str]) -> int:
    """Move money between cells until they have about the same; how many moves that took."""
    bad = {each.id for each in books.all() if isinstance(each, Quarantined)}
    moved = 0
    for _ in range(AT_ONCE * len(cells)):
        move = due([each for each in books.ledger.accounts(cells) if each.id not in bad])
        steps = None if move is None else _steps(books.ledger, at, move)
        if steps is None:
            break
        moved += _write(books.ledger, steps)
    if moved:
        books.follow(cells)
    return moved


def due(cells: Sequence[Account]) -> Move | None:
    """The next move: the one who has most gives to the one who has least, up to the mean.

    None where they are close together, or have hardly anything.
    """
    if len(cells) < 2:
        return None
    most, least = max(cells, key=_remaining), min(cells, key=_remaining)
    mean = sum(map(_remaining, cells)) // len(cells)
    if mean < 1 or _remaining(most) - _remaining(least) <= APART * mean:
        return None
    micros = min(
        _remaining(most) - mean, mean - _remaining(least), MOST_MONEY - least.budget
    )  # the mean is at least one micro: so much stays
    return Move(most, least, micros) if micros > 0 else None


def _remaining(account: Account) -> int:
    return account.budget - account.spent - account.reserved


def _steps(ledger: Ledger, at: int, move: Move) -> list[Step] | None:
    """What becomes of both cells; None if the last event of one is not what its row says."""
    id_ = f"move-{secrets.token_hex(12)}"
    given = _step(ledger, move.giver, at, Kind.GIVEN, id_, move.micros)
    received = _step(ledger, move.receiver, at, Kind.RECEIVED, id_, move.micros)
    if given is None or received is None:
        return None
    # in the order of keys, as everybody writes: none waits for one that waits for it
    return sorted([given, received])


def _write(ledger: Ledger, steps: Sequence[Step]) -> bool:
    """Write both in one transaction; whether no other process was faster."""
    ledger.begin()
    try:
        for step in steps:
            ledger.advance(step.account, step.before)
        ledger.append([step.event for step in steps])
        ledger.commit()
    except LedgerError as error:
        if concerns_all(error):
            raise
        ledger.roll_back()
        if not isinstance(error, ConflictError):
            logger.error("no money was moved: %s", error)
        return False
    return True


def _step(
    ledger: Ledger, account: Account, at: int, kind: Kind, move: str, micros: int
) -> Step | None:
    """A cell after a move; None if its last event is not what its row says."""
    last = next(ledger.events(account.key, account.sequence - 1), None)
    if last is None or last.seal != account.seal:
        return None
    budget = account.budget + (micros if kind == Kind.RECEIVED else -micros)
    after = account._replace(sequence=account.sequence + 1, budget=budget)
    rest = (move, None, None, micros, None, None, None, _remaining(after), None)
    row = (account.key, after.sequence, max(at, last.at), kind.value, *rest)
    seal = seal_of(row, account.seal)
    return Step(after._replace(seal=seal), Event._make((*row, seal)), account.mark)
