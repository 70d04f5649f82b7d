"""Moments: microseconds since 1970, and how they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_time(at: int) -> str:
    """A moment as text, in UTC.

    >>> as_time(1_000_000)
    '1970-01-01T00:00:01Z'
    """
    return time_of(at).isoformat().replace("+00:00", "Z")


def time_of(at: int) -> datetime:
    """A moment as a time of the calendar, in UTC."""
    return EPOCH + timedelta(microseconds=at)


def moment_of(time: datetime) -> int:
    """A time of the calendar as a moment.

    >>> moment_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    return (time - EPOCH) // timedelta(microseconds=1)
