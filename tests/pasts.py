"""Ledgers with a past: campaigns that have seen every kind of event, made by the service's own
commands, with a clock of our own.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bccb.composition import Composition
from bccb.kernels import counts as count
from bccb.kernels.sample import SAMPLE, earlier_size
from bccb.ledger.event import Kind
from bccb.ledger.opening import open_ledger
from bccb.machine import Machine, Steps
from bccb.serve import campaigns, code, decisions, outcomes
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.decisions import Asked
from bccb.serve.problem import ProblemError
from bccb.serve.users import UserRows
from bccb.types import Floats, Ints
from bccb.wire import CampaignRequest, DecisionRequest, OutcomeItem, decoder

# without those of shadow campaigns, of fits and of cells, which have tests of their own
ELSEWHERE = {Kind.CLOSED, Kind.DONE, Kind.FITTED, Kind.GIVEN, Kind.RECEIVED}
ALL_KINDS = {kind.value for kind in Kind} - ELSEWHERE
SECOND = 1_000_000
WINDOW = 60  # seconds
BODY: dict[str, Any] = {
    "budget": "40",
    "horizon": {"users": 400},
    "features": ["age", "visits"],
    "treatments": ["email", "call"],
    "policy": {"name": "budgeted-thompson"},
    "outcome_window_seconds": WINDOW,
    "seed": 1,
}


def decide(books: Books, at: int, campaign: str, users: list[DecisionRequest]) -> Any:
    """The answers, as JSON, on users in one request."""
    (made,) = decisions.decide(books, at, [Asked(campaign, UserRows.of(users))])
    if isinstance(made, ProblemError):
        raise made
    return msgspec.to_builtins(decisions.answers(made))


class Desk:
    """A ledger and its books, and nobody between them and us."""

    def __init__(self, place: str | Path) -> None:
        self.place, self.path = place, Path(place)
        self._open()

    def _open(self) -> None:
        self.ledger = open_ledger(self.place)
        self.books = Books(self.ledger)
        list(self.books.open())

    def add(self, id_: str, body: dict[str, Any], at: int) -> None:
        """A new campaign."""
        terms = campaigns.terms_of(decoder(CampaignRequest).decode(json.dumps(body)), at)
        campaign = self.books.add(id_, terms)
        self.books.record(campaign, campaign.opening())
        if terms.learned_from:
            memory = campaigns._learned(self.books, terms)
            self.books.record(campaign, campaign.learning(at, memory))
        self.commit()

    def commit(self) -> None:
        """Make what was recorded durable."""
        if self.books.changed:
            self.books.write()
            self.books.commit()

    def restart(self) -> None:
        """Stop cleanly, and start again."""
        self.books.keep_all()
        self.close()
        self._open()

    def close(self) -> None:
        """Stop as a kill would, except for the write-ahead log, which SQLite folds in."""
        self.ledger.close()


class Past(Desk):
    """A desk, and traffic that a seed determines. One act is one commit."""

    def __init__(self, place: str | Path, seed: int) -> None:
        super().__init__(place)
        self.random = random.Random(seed)
        self.at, self.acts = 1_700_000_000 * SECOND, seed * 1_000_000
        self.kept: dict[str, bytes] = {}
        names = [campaign.terms.name for campaign in self.books]
        if not names:
            self._found()
        self.at = max(self.at, *(campaign.at for campaign in self.books))

    def _found(self) -> None:
        """Two campaigns, of which the second has learned from the first."""
        for name in ("first", "second"):
            body = {**BODY, "name": name}
            if name == "second":
                self.live(12)
                body["horizon"] = {"ends_at": "2100-01-01T00:00:00Z"}
                body["learned_from"] = self.campaign("first").id
            self.add(f"c{name}", body, self.at)

    def campaign(self, name: str) -> Campaign:
        """A campaign by its name."""
        result = self.books.named(name)
        assert result is not None
        return result

    def states(self) -> dict[str, bytes]:
        """All campaigns, to the bit."""
        return {campaign.terms.name: campaign.to_bytes() for campaign in self.books}

    def close(self) -> None:
        """As any desk; how all stood is remembered."""
        self.kept = self.states()
        super().close()

    def decision_ids(self) -> dict[str, list[str]]:
        """The ids of all decisions by campaign."""
        with closing(open_ledger(self.path, read_only=True)) as ledger:
            return {
                account.name: [
                    event.decision or ""
                    for event in ledger.events(account.key)
                    if event.kind == Kind.DECISION
                ]
                for account in ledger.accounts()
            }

    # Traffic

    def live(self, acts: int) -> None:
        """Let something happen, so many times."""
        for _ in range(acts):
            self.acts += 1
            self.at += self.random.randrange(8 * SECOND)
            campaign = self.random.choice(list(self.books))
            act = self.random.choices(
                [
                    *(self._decide, self._observe, self._correct, self._cancel, self._settle),
                    *(self._add, self._turn),
                ],
                [14, 10, 2, 2, 3, 1, 1],
            )[0]
            with suppress(ProblemError):  # too late, paused, ended already: as in life
                act(campaign)
            while outcomes.sweep(self.books, self.at):  # a loaded machine does it in parts
                pass
            self.commit()

    def _decide(self, campaign: Campaign) -> None:
        users = [
            DecisionRequest(
                decision_id=f"u{self.acts}-{i}",
                features={"age": self.random.uniform(18, 80), "visits": self.random.randrange(9)},
                costs={"email": "0.05", "call": f"{self.random.uniform(0.2, 0.9):.7f}"},
            )
            for i in range(self.random.choice([1, 1, 1, 5]))
        ]
        decide(self.books, self.at, campaign.id, users)

    def _some(self, campaign: Campaign) -> str:
        """A recent decision."""
        results = [
            event.decision or ""
            for event in self.ledger.events(campaign.key, max(campaign.sequence - 40, 0))
            if event.kind == Kind.DECISION
        ]
        return self.random.choice(results or ["nobody"])

    def _observe(self, campaign: Campaign) -> None:
        items = [
            OutcomeItem(decision_id=self._some(campaign), value=self.random.choice([0.0, 1.0]))
            for _ in range(self.random.choice([1, 3]))
        ]
        outcomes.observe(self.books, self.at, outcomes.Reports(campaign.id, items, single=False))

    def _cancel(self, campaign: Campaign) -> None:
        outcomes.cancel(self.books, self.at, campaign.id, self._some(campaign))

    def _correct(self, campaign: Campaign) -> None:
        value = float(self.random.random() < 0.5)
        outcomes.correct(self.books, self.at, campaign.id, self._some(campaign), value)

    def _settle(self, campaign: Campaign) -> None:
        outcomes.settle(self.books, self.at, campaign.id, self._some(campaign), "0.01")

    def _add(self, campaign: Campaign) -> None:
        campaigns.add_budget(self.books, self.at, campaign.id, "3.5", f"b{self.acts}")

    def _turn(self, campaign: Campaign) -> None:
        campaigns.turn(self.books, self.at, campaign.id, Kind.PAUSED)
        campaigns.turn(self.books, self.at, campaign.id, Kind.RESUMED)


@contextmanager
def other_code(version: str = "0.0.1", decides_otherwise: bool = False) -> Iterator[None]:
    """As if another bccb ran, perhaps one that draws other numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "__version__", version)
        patch.setattr(code, "fingerprint", lambda part: f"{version} of {part}")
        if decides_otherwise:
            steps = Machine.steps

            def otherwise(machine: Machine, *given: Any) -> Steps:
                machine.counts[count.SEED] += 9
                try:
                    return steps(machine, *given)
                finally:
                    machine.counts[count.SEED] -= 9

            patch.setattr(Machine, "steps", otherwise)
        yield


def damage(path: str | Path, statement: str) -> None:
    """Change a ledger by hand, past all that would refuse it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        guards = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = guards.fetchall()
        for name, _ in triggers:
            file.execute(f"DROP TRIGGER {name}")
        file.execute("PRAGMA ignore_check_constraints = ON")
        assert file.execute(statement).rowcount > 0
        for _, sql in triggers:
            file.execute(sql)
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def without_charges(snapshot: bytes) -> bytes:
    """The snapshot of a policy as the version before caps, charges and amounts made it."""
    counts = np.frombuffer(snapshot[: 8 * count.COUNTS], np.int64)
    return earlier_counts(counts).tobytes() + snapshot[8 * count.COUNTS :]


def earlier_memory(memory: Floats, counts: Ints, composition: Composition) -> Floats:
    """The memory of that version: its sample knew nothing of history."""
    if not composition.has_posterior:
        return memory
    d, begin = int(counts[count.FEATURES]), int(counts[count.END])
    return np.delete(memory, np.s_[begin + earlier_size(d) : begin + SAMPLE.size(d)])


def earlier_counts(counts: Ints) -> Ints:
    """The counts of that version."""
    since = [*range(count.CAP, count.AT_ESTIMATOR), count.AT_AMOUNTS]
    return np.delete(counts, since)
