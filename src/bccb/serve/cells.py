"""Cells: a campaign that is too hot for one process is cut into several.

Each cell is a campaign of its own, with a part of the money and of the users. What belongs together
is in the ids, so that nothing need be looked up: `c0123456789x4` has the cells `c0123456789x4.0` to
`c0123456789x4.3`. The whole has no row and no journal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from bccb.serve.problem import invalid
from bccb.wire import MOST_CELLS

if TYPE_CHECKING:
    from bccb.serve.terms import Terms

WHOLE = re.compile(r"(c[0-9a-f]+x([0-9]{1,2}))(?:\.([0-9]{1,2}))?")
MOST_SEED = 2**53  # as of a request


def cells_of(campaign: str) -> list[str]:
    """The ids of a campaign's cells; none where it is not cut, or is itself a cell.

    >>> cells_of("c12x2"), cells_of("c12x2.1"), cells_of("c12")
    (['c12x2.0', 'c12x2.1'], [], [])
    """
    found = WHOLE.fullmatch(campaign)
    if found is None or found[3] is not None or not 2 <= int(found[2]) <= MOST_CELLS:
        return []
    return [f"{campaign}.{cell}" for cell in range(int(found[2]))]


def whole_of(campaign: str) -> str | None:
    """The id of the campaign that this one is a cell of, if it is one.

    >>> whole_of("c12x2.1"), whole_of("c12x2.2"), whole_of("c12")
    ('c12x2', None, None)
    """
    found = WHOLE.fullmatch(campaign)
    return found[1] if found is not None and campaign in cells_of(found[1]) else None


def cells_beside(campaign: str) -> list[str]:
    """All cells of the campaign that this one is a cell of; where it is none, itself.

    >>> cells_beside("c12x2.1"), cells_beside("c12")
    (['c12x2.0', 'c12x2.1'], ['c12'])
    """
    whole = whole_of(campaign)
    return [campaign] if whole is None else cells_of(whole)


def is_first(campaign: str) -> bool:
    """Whether this is the first of several cells.

    >>> is_first("c12x2.0"), is_first("c12x2.1"), is_first("c12")
    (True, False, False)
    """
    return campaign.endswith(".0") and whole_of(campaign) is not None


def row_name(campaign: str, name: str) -> str:
    """The name in a campaign's row, where no two have the same: all cells have the same one."""
    return name if whole_of(campaign) is None or is_first(campaign) else campaign


def cell_for(decision: str, cells: list[str]) -> str:
    """The cell that decides on a user: always the same one, on every machine.

    >>> [cell_for(f"order-{i}", ["a", "b"]) for i in range(6)]
    ['b', 'b', 'b', 'a', 'a', 'a']
    """
    digest = blake2b(decision.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return cells[int.from_bytes(digest, "big") % len(cells)]


def cut(terms: Terms, cells: int) -> Iterator[Terms]:
    """The terms of each cell: its parts of the money and of the users, and draws of its own."""
    for cell in range(cells):
        yield replace(
            terms,
            budget=_part(terms.budget, cell, cells),
            users=terms.users and _part(terms.users, cell, cells),
            expected_users=terms.expected_users and _part(terms.expected_users, cell, cells),
            seed=_seed(terms.seed, cell),
        )


def check_cells(terms: Terms, cells: int) -> None:
    """Refuse cells that would have no money or no users."""
    users = terms.users or terms.expected_users or cells
    if users < cells:
        raise invalid("cells", cells, f"at most the number of users, {users}")
    if terms.budget < cells:
        raise invalid("cells", cells, f"at most the budget in millionths, {terms.budget}")


def _part(whole: int, cell: int, cells: int) -> int:
    return whole // cells + (cell < whole % cells)


def _seed(seed: int, cell: int) -> int:
    """The first cell has the campaign's seed; the draws of the others are independent of it."""
    if cell == 0:
        return seed
    digest = blake2b(f"{seed}\n{cell}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % MOST_SEED
