"""Reading a ledger in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping

from bccb.ledger.event import FIELDS, Event
from bccb.ledger.port import Account, DamagedError, Key, Resolved, Scope, Snapshot
from bccb.ledger.postgresql import arrays, tables
from bccb.ledger.postgresql.backup import back_up
from bccb.ledger.postgresql.connection import LONG_PATIENCE
from bccb.ledger.postgresql.session import Session

PAGE = 10_000  # events that are read at once


def keys_of(session: Session) -> list[Key]:
    """All API keys."""
    return [Key(row[0], row[1], Scope(row[2]), *row[3:]) for row in session.rows("keys")]


class PostgresqlReader:
    """A ledger as the port wants it, to read."""

    shared = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def check_whole(self) -> None:
        """PostgreSQL checks its pages itself; we check that nothing is missing of the schema."""
        tables.check_guards(self._session)

    def accounts(self, ids: Collection[str] | None = None) -> list[Account]:
        """Campaigns, all or some."""
        if ids is None:
            rows = self._session.rows("campaigns")
        else:
            rows = self._session.rows("campaigns_of", [_texts(ids)])
        return [Account(*row) for row in rows]

    def account(self, id_: str) -> Account | None:
        """One campaign."""
        accounts = self.accounts([id_])
        return accounts[0] if accounts else None

    def first(self, campaign: int) -> Event | None:
        """The first event of a campaign."""
        rows = self._session.rows("events", (campaign, 0, 1))
        return Event(*rows[0]) if rows else None

    def events(self, campaign: int, after: int = 0) -> Iterator[Event]:
        """The events of a campaign in order, page by page. A gap in the sequence is damage."""
        while True:
            page = self._session.rows("events", (campaign, after, PAGE), LONG_PATIENCE)
            for row in page:
                event = Event(*row)
                if event.sequence != after + 1:
                    raise DamagedError(f"event {after + 1} is missing")
                after = event.sequence
                yield event
            if len(page) < PAGE:
                return

    def known(self, campaign: int, decisions: Iterable[str]) -> dict[str, list[Event]]:
        """The events of decisions, by their ids."""
        events: dict[str, list[Event]] = {}
        for row in self._session.rows("known", (campaign, _texts(decisions))):
            events.setdefault(row[FIELDS.index("decision")], []).append(Event(*row))
        return events

    def known_in(self, asked: Mapping[int, Iterable[str]]) -> dict[int, dict[str, list[Event]]]:
        """The same for several campaigns, in one round trip."""
        pairs = [(key, id_) for key, ids in asked.items() for id_ in ids if "\0" not in id_]
        keys, ids = zip(*pairs, strict=True) if pairs else ((), ())
        events: dict[int, dict[str, list[Event]]] = {key: {} for key in asked}
        for row in self._session.rows("known_in", (arrays.numbers(keys), arrays.texts(ids))):
            event = Event(*row)
            events[event.campaign].setdefault(event.decision or "", []).append(event)
        return events

    def decisions_since(self, campaign: int, after: int, limit: int) -> list[Event]:
        """The next decisions after an event."""
        given = (campaign, after, limit)
        return [Event(*row) for row in self._session.rows("decisions_since", given, LONG_PATIENCE)]

    def resolved(self, campaign: int, after: int, until: int, limit: int) -> list[Resolved]:
        """The next decisions after an event, with their ends, as things stood after ``until``."""
        given = {"campaign": campaign, "after": after, "until": until, "limit": limit}
        rows = self._session.rows("resolved", given, LONG_PATIENCE)
        return [Resolved(Event(*row[: len(FIELDS)]), *row[len(FIELDS) :]) for row in rows]

    def snapshot(self, campaign: int) -> Snapshot | None:
        """The newest state of a campaign."""
        rows = self._session.rows("last_snapshot", (campaign,), LONG_PATIENCE)
        return Snapshot(*rows[0]) if rows else None

    def origin(self, campaign: int) -> Snapshot | None:
        """The newest state that is kept for good."""
        rows = self._session.rows("origin_snapshot", (campaign,), LONG_PATIENCE)
        return Snapshot(*rows[0]) if rows else None

    def seal_at(self, campaign: int, sequence: int) -> int | None:
        """The seal of one event."""
        rows = self._session.rows("seal_at", (campaign, sequence))
        return int(rows[0][0]) if rows else None

    def keys(self) -> list[Key]:
        """All API keys."""
        return keys_of(self._session)

    def back_up(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as it is now to a file, which appears whole or not at all."""
        back_up(self._session, path)


def _texts(ids: Iterable[str]) -> arrays.TextColumn:
    """Ids to look for; PostgreSQL keeps no NUL, so those with one are nowhere."""
    return arrays.texts([id_ for id_ in ids if "\0" not in id_])
