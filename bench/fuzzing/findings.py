"""What the harness found: counted by kind, each with where to repeat it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

COUNTERS = (
    "overspent",  # a campaign has more out than its budget
    "lost",  # an answer that was given is gone, or has changed
    "nonfinite",  # an answer is not strict JSON, or holds a number that is not finite or in range
    "stalls",  # a call took longer than a second
    "refused_starts",  # a server that must start did not
    "faults",  # an answer 5xx without a cause, or something else that must never happen
    "disagreed",  # the plain model expects something else
)
SHOWN = 20  # findings of a kind that are printed
LONGEST = 600  # characters of a finding


class StopFuzzError(Exception):
    """The first finding, where no further one is wanted."""


class Findings:
    """Counters, and a line for each of the first findings."""

    def __init__(
        self,
        show: Callable[[str], None] = lambda _: None,
        stop_at_first: bool = False,
        whole: Findings | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.where = ""  # options that repeat the present round, and the step
        self.stop_at_first = stop_at_first
        self._show = show
        self._whole = whole
        self._lock = threading.Lock()  # rounds, and probes of /healthz, have threads of their own

    def of_round(self) -> Findings:
        """Findings of one round, which count here as well."""
        return Findings(stop_at_first=self.stop_at_first, whole=self)

    def add(self, counter: str, what: str, where: str = "") -> None:
        """One more."""
        assert counter in COUNTERS
        with self._lock:
            self.counts[counter] += 1
            count = self.counts[counter]
        where = where or self.where
        if self._whole is not None:
            self._whole.add(counter, what, where)
        elif count <= SHOWN:
            self._show(f"{counter}: {_one_line(what)} [{where}]")

    def check_stop(self) -> None:
        """End the round if there is a finding and one is enough."""
        if self.stop_at_first and self:
            raise StopFuzzError

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def verdict(self, campaigns: int, decisions: int, restarts: int) -> str:
        """The last line of the harness."""
        found = " ".join(f"{name}={self.counts[name]}" for name in COUNTERS)
        return f"campaigns={campaigns} decisions={decisions} restarts={restarts} {found}"


def _one_line(what: str) -> str:
    text = " ".join(what.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
