"""Recent decisions per second. Not durable: only the report shows it."""

from __future__ import annotations

from collections import deque

from bccb.ledger.moment import SECOND

SPAN = 10  # seconds


class Meter:
    """Counts per second, over the last ten."""

    def __init__(self) -> None:
        self._counts: deque[tuple[int, int]] = deque()

    def add(self, at: int, count: int) -> None:
        """Count decisions that were made now."""
        second = at // SECOND
        while self._counts and self._counts[-1][0] > second:  # the clock was set back
            self._counts.pop()
        if self._counts and self._counts[-1][0] == second:
            count += self._counts.pop()[1]
        self._counts.append((second, count))
        while self._counts[0][0] <= second - SPAN:
            self._counts.popleft()

    def rate(self, at: int) -> float:
        """Decisions per second, over the last ten.

        >>> meter = Meter()
        >>> meter.add(5_000_000, 30)
        >>> meter.rate(9_000_000), meter.rate(60_000_000)
        (3.0, 0.0)
        """
        since = at // SECOND - SPAN
        return sum(count for second, count in self._counts if second > since) / SPAN
