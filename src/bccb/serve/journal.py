"""The journal as commands see it: what the ledger has of decisions, and what is not committed yet.

On a shared ledger every query is a round trip. So what commands that run together will ask for can
be read in one query before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from bccb.ledger.event import Event
from bccb.ledger.port import Reader


class Read(NamedTuple):
    """What the ledger has of decisions of one campaign."""

    asked: set[str]  # their ids
    events: dict[str, list[Event]]  # of those that it knows


class Journal:
    """The events of decisions, by the keys of their campaigns."""

    def __init__(self, ledger: Reader) -> None:
        self._ledger = ledger
        self._read: dict[int, Read] = {}
        self.forget()

    def forget(self) -> None:
        """Nothing is recorded: it was committed or abandoned."""
        self.recorded: list[Event] = []
        self._keys: set[int] = set()  # of the campaigns of these events
        self._by_decision: dict[tuple[int, str], list[Event]] = {}
        self._indexed = 0  # events that are in this index
        self.read_again()

    def read_again(self, campaign: int | None = None) -> None:
        """Drop what was read ahead, of all campaigns or of one: the ledger may have more now."""
        if campaign is None:
            self._read.clear()
        else:
            self._read.pop(campaign, None)

    def record(self, campaign: int, events: Sequence[Event]) -> None:
        """Add events that a campaign has made, in order."""
        self._keys.add(campaign)
        self.recorded.extend(events)

    def look_up(self, decisions: Iterable[tuple[int, Collection[str]]]) -> None:
        """Read together what :meth:`known` will be asked for: one query for all campaigns."""
        asked: dict[int, set[str]] = {}
        for key, ids in decisions:
            asked.setdefault(key, set()).update(ids)
        known = self._ledger.known_in(asked) if len(asked) > 1 else {}
        self._read = {key: Read(asked[key], events) for key, events in known.items()}

    def known(self, campaign: int, decisions: Sequence[str]) -> dict[str, list[Event]]:
        """All events of these decisions, also those that are not committed yet."""
        read = self._read.get(campaign)
        if read is None or not read.asked.issuperset(decisions):
            events = self._ledger.known(campaign, decisions)
        else:
            events = {id_: read.events[id_] for id_ in decisions if id_ in read.events}
        if campaign in self._keys:
            self._index()
            for id_ in decisions:
                more = self._by_decision.get((campaign, id_))
                if more:
                    events[id_] = [*events.get(id_, ()), *more]
        return events

    def _index(self) -> None:
        """Bring the index of recorded events up to date: only when it is needed, which is rare."""
        for event in self.recorded[self._indexed :]:
            if event.decision is not None:
                self._by_decision.setdefault((event.campaign, event.decision), []).append(event)
        self._indexed = len(self.recorded)
