"""Where a campaign stands: what the fold of its journal gives, to be looked at and kept."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from bccb.caused import Caused
from bccb.errors import StateError
from bccb.ledger.event import Event, Kind, Known
from bccb.ledger.port import Account
from bccb.measured import Measure
from bccb.pending import Pending
from bccb.serve.balance import Balance
from bccb.serve.cells import cells_beside, row_name
from bccb.serve.meter import Meter
from bccb.serve.tally import Tally
from bccb.serve.terms import UPLOAD, Terms
from bccb.types import Floats, Ints
from bccb.wire import AlertKind

NO_BYTES = np.empty(0, np.uint8)


class Alert(NamedTuple):
    """Something about a campaign that somebody should look at."""

    kind: AlertKind
    since: int  # microseconds since 1970
    text: str


class Standing:
    """The terms, money, policy and tally of a campaign, and where its journal ends."""

    def __init__(self, key: int, id_: str, terms: Terms) -> None:
        self.key, self.id, self.terms = key, id_, terms
        self.machine = terms.machine()
        self.tally = Tally.empty(len(terms.treatments), terms.has_amounts)
        self.status = Kind.RESUMED
        self.budget = self.spent = self.reserved = 0
        self.sequence = self.seal = self.swept = 0
        self.at = self.planned_at = terms.opened_at
        self.open = 0  # decisions without an end
        self.age_at = 0  # when to look whether users have grown older
        self.sweep_at = 0  # when to look for the next window that has passed
        self.fitted_at: int | None = None  # when the policy was fitted again last
        self.needs_history = terms.learned_from == UPLOAD  # before it can decide
        self.meter = Meter()
        self.balance = Balance()
        self.alerts: tuple[Alert, ...] = ()  # as of the last look
        # where the features as they came begin in the detail of a decision, if they are kept
        self._raw_from: int | None = None
        if terms.encoding is not None:
            self._raw_from = 8 * (len(terms.treatments) + self.machine.trace_size)
        self.measure: Measure | None = None
        if not terms.shadow:
            self.measure = self.machine.new_measure()

    @property
    def pending(self) -> Pending:
        """The users whose outcome may still be reported."""
        assert self.machine.pending is not None
        return self.machine.pending

    @property
    def remaining(self) -> int:
        """Micros that can still be reserved."""
        return self.budget - self.spent - self.reserved

    @property
    def cap_binds(self) -> bool:
        """Whether the cost cap holds money back: of late most prices were as low as it allows."""
        cap = self.machine.cost_cap
        return cap is not None and self.remaining > 0 and self.tally.at_most(1.0 / cap)

    def over(self, at: int) -> bool:
        """Whether no more decisions are made, for good."""
        return self.status == Kind.CLOSED or self.terms.ended(self.now(at))

    def account(self) -> Account:
        """The row of the ledger."""
        return Account(
            self.key,
            self.id,
            row_name(self.id, self.terms.name),
            self.sequence,
            self.seal,
            self.swept,
            self.budget,
            self.spent,
            self.reserved,
        )

    def now(self, at: int) -> int:
        """The time of the next event: it never runs back, whatever the clock does."""
        return max(at, self.at)

    def caused(self) -> Caused:
        """What the treatments caused; a shadow campaign treats nobody."""
        if self.terms.shadow:
            return Caused(None, None, 0)
        whole = self.machine.treated == sum(self.tally.decisions[1:])  # not of an older version
        estimated = self.machine.estimated(len(cells_beside(self.id))) if whole else None
        return Caused.told(estimated, self.measure)

    def done(self, known: Known) -> int | None:
        """What was done to a user; None where a shadow campaign does not know it yet."""
        if not self.terms.shadow:
            return known.decision.action or 0
        return None if known.done is None else known.done.action

    def trace(self, decision: Event) -> Floats:
        """What a decision left to learn by; its first entries are what the policy has read."""
        assert decision.detail is not None
        # through a copy that may be written to: kernels are compiled for no other
        begin, end = 8 * len(self.terms.treatments), self._raw_from
        return np.frombuffer(bytearray(decision.detail[begin:end]))

    def raw(self, decision: Event) -> bytes:
        """The features as they came, a JSON list, where they are encoded; otherwise nothing."""
        assert decision.detail is not None
        return b"" if self._raw_from is None else decision.detail[self._raw_from :]

    def costs(self, decision: Event) -> Ints:
        """What each treatment would have cost, in micros."""
        assert decision.detail is not None
        # writable, as those of a request: for others the kernels would be compiled once more
        return np.frombuffer(bytearray(decision.detail[: 8 * len(self.terms.treatments)]), np.int64)

    def planned(self, at: int, decisions: int) -> int:
        """Micros that even spending would have spent: over users, or over time."""
        money, since = self.machine.planned
        if self.terms.users is None:
            share = self.terms.elapsed(at, self.planned_at)
        else:
            share = min((decisions - since) / max(self.terms.users - since, 1), 1.0)
        return self.budget - money + int(money * share)

    # Keeping

    def to_bytes(self) -> bytes:
        """The whole state: what the fold of the journal gives, to the bit."""
        account = self.account()._asdict()
        account.pop("swept")  # how far windows were checked, which no event records
        rest = {
            "account": account,
            "at": self.at,
            "planned_at": self.planned_at,
            "status": self.status.value,
            "open": self.open,
            "tally": self.tally.to_dict(),
            "waiting_from": self.pending.first_event,
        }
        if self.terms.learned_from == UPLOAD:
            rest["needs_history"] = self.needs_history
        sums, states = (np.empty(0), NO_BYTES) if self.measure is None else self.measure.kept()
        rest["measured"] = len(sums), len(states)
        machine = self.machine.snapshot()
        rest["machine"] = len(machine)
        if self.machine.composition.refitted:
            rest["fitted_at"] = self.fitted_at
        head = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
        measured = sums.tobytes() + states.tobytes()
        parts = head, machine, measured, self.pending.learned()
        return len(head).to_bytes(8, "little") + b"".join(parts)

    def restore(self, state: bytes) -> int:
        """Continue from what :meth:`to_bytes` gave; the event of the first user who waits, or 0.

        From that event on the users who wait must be known again, from the journal.
        """
        size = int.from_bytes(state[:8], "little")
        rest = json.loads(state[8 : 8 + size])
        account = rest["account"]
        self.sequence, self.seal = account["sequence"], account["seal"]
        self.budget, self.spent = account["budget"], account["spent"]
        self.reserved = account["reserved"]
        self.at, self.planned_at = rest["at"], rest["planned_at"]
        self.status, self.open = Kind(rest["status"]), rest["open"]
        self.tally = Tally.from_dict(rest["tally"])
        self.needs_history = rest.get("needs_history", False)
        whole, without_sample = self.machine.earlier_sizes
        whole, self.fitted_at = rest.get("machine", whole), rest.get("fitted_at")
        begin = 8 + size + (whole if "measured" in rest else without_sample)
        self.machine.restore(state[8 + size : begin])
        begin = self._restore_measure(state, begin, rest.get("measured"))
        if "waiting_from" not in rest:  # an older version, which did not let users wait
            self.pending.begin_after(self.machine.decisions)
            return 0
        self.pending.restore(state[begin:])
        return int(rest["waiting_from"])

    def _restore_measure(self, state: bytes, begin: int, sizes: list[int] | None) -> int:
        """Continue to measure, as from the first user; the place after what was kept of it."""
        if sizes is None:  # an older version: what it did not measure cannot be known
            self.measure = None if self.machine.decisions else self.measure
            return begin
        sums = np.frombuffer(state, np.float64, sizes[0], begin)
        states = np.frombuffer(state, np.uint8, sizes[1], begin + sums.nbytes)
        if not sizes[0]:
            self.measure = None
        elif self.measure is None or not self.measure.restore(sums, states):
            raise StateError("what was measured is not as it was kept")
        return begin + sums.nbytes + states.nbytes
