"""Check a ledger in PostgreSQL by what it holds, and by the answers that clients got.

It reads the database alone, with SQL of its own, and shares no code with the service. The journal
of every campaign is added up row by row: after each of them no more may be spent and reserved than
the budget, and what the row says must remain. The answers that clients got are JSON lines, each
with ``campaign`` (its id) and ``kind``:

- ``decision``: ``id`` and the answer's ``treatment``, ``probability``, ``price`` and ``remaining``
- ``outcome``: ``id``, ``reported``, and the answer's ``value`` and ``status``
- ``cancellation``: ``id``; ``settlement``: ``id``, ``cost``; ``correction``: ``id``, ``value``
- ``budget``: ``id`` (of the request), ``add``
- ``paused``: ``tries``, how often that was sent until it was answered
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import psycopg

from bench.chaos.fold import COUNTERS, SECOND, Findings, Fold, Row
from bench.chaos.fold import Decision as Decided

CAMPAIGNS = "SELECT key, id, sequence, budget, spent, reserved FROM campaigns ORDER BY key"
JOURNAL = """
SELECT sequence, at, kind, decision, number, action, money, value, price, probability, remaining,
    CASE WHEN kind IN ('opened', 'decision') THEN detail END
FROM journal WHERE campaign = %s ORDER BY sequence
"""
STRAYS = "SELECT count(*) FROM journal WHERE campaign NOT IN (SELECT key FROM campaigns)"
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
CELLS = re.compile(r"c[0-9a-f]+x([0-9]+)")  # the id of a campaign in so many cells
PAGE = 5_000  # rows at once
AHEAD = 2 * SECOND  # how far an event may be ahead of the database's clock
GREEDY = "treat-all"  # the policy that treats everybody whom it can pay for
ENOUGH = 2  # times the budget: its money must have run out once this was asked for


@dataclass(slots=True)
class Verdict:
    """What was found, and the share of the money that was left where none should be."""

    findings: Findings
    campaigns: int = 0
    events: int = 0
    exhausted: int = 0  # campaigns whose money should have run out
    left: int = 0  # micros that remain there
    granted: int = 0  # micros of their budgets

    @property
    def underspent(self) -> float:
        """The share of the budgets that was neither spent nor reserved."""
        return self.left / self.granted if self.granted else 0.0


def check(url: str, answers: Iterable[dict[str, Any]] | None = None) -> Verdict:
    """Check all campaigns, and the answers that clients got, if they are given."""
    verdict = Verdict(Findings())
    by_campaign: dict[str, list[dict[str, Any]]] = {}
    for line in answers or ():
        by_campaign.setdefault(_cell_of(line), []).append(line)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (now,) = connection.execute(NOW).fetchone() or (0,)
        (strays,) = connection.execute(STRAYS).fetchone() or (0,)
        if strays:
            verdict.findings.add("diverged", f"{strays} events are of no campaign")
        moved = Counter[str]()
        for key, id_, *row in connection.execute(CAMPAIGNS).fetchall():
            fold = _fold(connection, key, id_, verdict)
            _check_row(fold, now, *row)
            moved.update(fold.moved)  # adds up what was given and received under each id
            if answers is not None:
                _check_answers(fold, by_campaign.pop(id_, []))
    for move, micros in moved.items():
        if micros:
            verdict.findings.add("diverged", f"{move} made {micros} micros")
    for id_, lines in by_campaign.items():
        verdict.findings.add("lost", f"campaign {id_}, of which there were {len(lines)} answers")
    return verdict


def _cell_of(line: dict[str, Any]) -> str:
    """The campaign, or of one in cells the cell, whose journal has what was answered.

    Decisions are in a cell by a hash of their id, and money is added to the first.
    """
    campaign: str = line["campaign"]
    found = CELLS.fullmatch(campaign)
    if found is None:
        return campaign
    if line["kind"] == "budget":
        return f"{campaign}.0"
    digest = hashlib.blake2b(line["id"].encode(), digest_size=8).digest()
    return f"{campaign}.{int.from_bytes(digest, 'big') % int(found[1])}"


def _fold(connection: psycopg.Connection[Any], key: int, id_: str, verdict: Verdict) -> Fold:
    fold = Fold(id_, verdict.findings)
    with connection.cursor(f"journal_{key}") as rows:
        rows.itersize = PAGE
        for row in rows.execute(JOURNAL, (key,)):
            fold.add(Row._make(row))
            verdict.events += 1
    verdict.campaigns += 1
    terms = fold.terms
    if terms is not None and terms.policy == GREEDY and fold.offered >= ENOUGH * fold.budget:
        verdict.exhausted += 1
        verdict.left += max(fold.remaining, 0)
        verdict.granted += fold.budget
    return fold


def _check_row(fold: Fold, now: int, sequence: int, budget: int, spent: int, reserved: int) -> None:
    """The row of a campaign must be what its journal adds up to."""
    row = f"campaign {fold.campaign}: event {sequence}, {budget=}, {spent=}, {reserved=}"
    by_journal = fold.sequence, fold.budget, fold.spent, fold.reserved
    if spent + reserved > budget:
        fold.findings.add("overspent", row)
    if sequence > fold.sequence:
        fold.findings.add("lost", f"{row}; its journal ends at event {fold.sequence}")
    elif (sequence, budget, spent, reserved) != by_journal:
        fold.findings.add("diverged", f"{row}; by its journal {by_journal}")
    if fold.latest > now + AHEAD:
        ahead = (fold.latest - now) / SECOND
        fold.findings.add("diverged", f"campaign {fold.campaign}: an event is {ahead:.0f} s ahead")


# The answers that clients got


def _check_answers(fold: Fold, lines: list[dict[str, Any]]) -> None:
    asked = {line["id"] for line in lines if line["kind"] == "decision"}
    for id_ in fold.decisions.keys() - asked:
        fold.findings.add("diverged", f"campaign {fold.campaign}: nobody was answered {id_}")
    for line in lines:
        if line["kind"] != "paused" and (wrong := _wrong(fold, line)):
            fold.findings.add(wrong, f"{line}; {_journal_of(fold, line['id'])}")
    tries = [line["tries"] for line in lines if line["kind"] == "paused"]
    about = f"campaign {fold.campaign}: {len(tries)} pauses were answered, {fold.pauses} are there"
    if fold.pauses < len(tries):
        fold.findings.add("lost", about)
    elif fold.pauses > sum(tries):  # one that came late may have paused it again
        fold.findings.add("doubled", about)


def _wrong(fold: Fold, line: dict[str, Any]) -> str | None:
    """How an answer differs from the journal: the counter, or None."""
    kind = line["kind"]
    if kind == "budget":
        money = fold.added.get(line["id"])
        return _compared(money, _micros(line["add"], ROUND_FLOOR))
    known = fold.decisions.get(line["id"])
    if known is None:
        return "lost"
    if kind == "decision":
        return _compared(_answer(fold, known), _answer_of(line))
    if kind == "outcome":
        return _wrong_outcome(known, line)
    if kind == "cancellation":
        return _compared(known.end and known.end.kind, "cancellation")
    if kind == "settlement":
        settled = known.settlement and known.settlement.money
        return _compared(settled, _micros(line["cost"], ROUND_CEILING))
    return _compared(known.correction and known.correction.value, line["value"])


def _compared(found: object, answer: object) -> str | None:
    if found is None:
        return "lost"
    return None if found == answer else "diverged"


def _answer(fold: Fold, known: Decided) -> tuple[object, ...]:
    row, names = known.row, fold.terms.treatments if fold.terms else []
    treatment = names[row.action - 1] if row.action else None
    return treatment, row.probability, row.price, row.remaining


def _answer_of(line: dict[str, Any]) -> tuple[object, ...]:
    remaining = _micros(line["remaining"], ROUND_FLOOR)
    return line["treatment"], line["probability"], line["price"], remaining


def _wrong_outcome(known: Decided, line: dict[str, Any]) -> str | None:
    end, status, value = known.end, line["status"], line["value"]
    if end is None:
        return "lost"
    if status == "too_late":
        if line["reported"] != 0.0 and "too_late" not in known.others:
            return "lost"
        return _compared(end.kind, "expiry")
    if end.kind == "expiry" and status == "already_recorded" and value == 0.0:
        return None  # once the window has passed, no conversion is no news
    return _compared((end.kind, end.value), ("outcome", value))


def _micros(text: str, rounding: str) -> int:
    return int((Decimal(text) * 1_000_000).to_integral_value(rounding))


def _journal_of(fold: Fold, id_: str) -> str:
    known = fold.decisions.get(id_)
    if known is None:
        return f"the journal has the money {fold.added.get(id_)} of it, and no decision"
    events = (known.row, known.end, known.settlement, known.correction)
    return f"in the journal {[event._replace(detail=None) for event in events if event]}"


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The answers that clients got, line by line."""
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def last_line(faults: int, counts: Counter[str], underspent: float) -> str:
    """The verdict in one line."""
    found = " ".join(f"{name}={counts[name]}" for name in COUNTERS)
    return f"faults={faults} {found} underspent={underspent:.1%}"


def main(arguments: list[str] | None = None) -> None:
    """Check a database, and say what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos.checker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="of the database, such as postgresql://postgres@localhost/bccb")
    parser.add_argument("answers", type=Path, nargs="?", help="that clients got, as JSON lines")
    options = parser.parse_args(arguments)
    verdict = check(options.url, None if options.answers is None else lines_of(options.answers))
    for example in verdict.findings.examples:
        print(example, file=sys.stderr)
    print(f"{verdict.campaigns} campaigns, {verdict.events} events", file=sys.stderr)
    print(last_line(0, verdict.findings.counts, verdict.underspent))
    sys.exit(int(verdict.findings.counts.total() > 0))


if __name__ == "__main__":
    main()
