"""Recovery: a campaign from its snapshot and the journal after it, every event checked.

Each event is made anew from what it tells of its cause, and must come out as it was recorded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from bccb import __version__
from bccb.errors import StateError, shown
from bccb.ledger.event import Event, Kind, seal_of
from bccb.ledger.port import (
    Account,
    DamagedError,
    LedgerError,
    Reader,
    RefusedError,
    Snapshot,
)
from bccb.serve.campaign import Campaign, Known
from bccb.serve.terms import Terms


def load(ledger: Reader, account: Account) -> Campaign:
    """A campaign as an uninterrupted process would have it."""
    return fold(ledger, account, ledger.snapshot(account.key))


def fold(ledger: Reader, account: Account, snapshot: Snapshot | None) -> Campaign:
    """The fold of the journal, from a snapshot or from the first event."""
    try:
        campaign = _begin(ledger, account, snapshot)
        version = campaign.terms.version if snapshot is None else snapshot.version
        if version != __version__ and campaign.sequence < account.sequence:
            told = f"bccb {version} wrote events after its last snapshot of {account.id}"
            again = "start that version once more and stop it, which makes one"
            raise LedgerError(f"{told}, and this is {__version__}: {again}")
        campaign.swept = account.swept
        opened: dict[str, list[Event]] = {}  # decisions without an end, among those folded here
        for event in ledger.events(account.key, campaign.sequence):
            with _placed(event):
                _apply(ledger, campaign, event, opened)
        _check_row(account, campaign, opened)
    except DamagedError as error:
        raise DamagedError(f"campaign {account.id} is damaged: {error}") from error
    return campaign


def check_seals(ledger: Reader, account: Account, until: int) -> None:
    """Refuse a journal that was changed up to an event, without making its events anew."""
    seal = 0
    for event in takewhile(lambda each: each.sequence <= until, ledger.events(account.key)):
        seal = seal_of(event, seal)
        if seal != event.seal:
            told = f"event {event.sequence} ({event.kind}) does not fit its seal"
            raise DamagedError(f"campaign {account.id} is damaged: {told}")


@contextmanager
def _placed(event: Event) -> Iterator[None]:
    """Tell of any error at which event it was: whatever damage leads to, it is damage."""
    try:
        yield
    except Exception as error:
        if isinstance(error, LedgerError) and not isinstance(error, DamagedError | RefusedError):
            raise  # it cannot be read now
        told = f"at event {event.sequence} ({event.kind}): {error or type(error).__name__}"
        raise DamagedError(told) from error


def _check_row(account: Account, campaign: Campaign, opened: dict[str, list[Event]]) -> None:
    """Refuse a row that does not tell what the journal tells."""
    for field, recorded, found in zip(Account._fields, account, campaign.account(), strict=True):
        if recorded != found:
            told = f"{field} is {recorded!r}, but {found!r} after its last event"
            raise DamagedError(f"in its row {told}")
    waiting = min((events[0].sequence for events in opened.values()), default=account.swept + 1)
    if not waiting > account.swept <= account.sequence:
        told = f"swept is {account.swept}, but event {waiting} has no end"
        raise DamagedError(f"in its row {told}")


def snapshot_of(campaign: Campaign, origin: bool) -> Snapshot:
    """The state of a campaign, to be kept."""
    state = campaign.to_bytes()
    seal = zlib.crc32(state, campaign.seal)
    return Snapshot(campaign.sequence, __version__, int(origin), state, seal)


def _begin(ledger: Reader, account: Account, snapshot: Snapshot | None) -> Campaign:
    """The campaign after its first event, or as the snapshot has it."""
    first = ledger.first(account.key)
    if first is None or first.sequence != 1:
        raise DamagedError("event 1 is missing")
    with _placed(first):
        if first.kind != Kind.OPENED or first.detail is None:
            raise DamagedError("it is not an opening")
        campaign = Campaign(account.key, account.id, Terms.from_json(first.detail))
        _compare(first, campaign.opening())
    if snapshot is not None:
        seal = ledger.seal_at(account.key, snapshot.sequence)
        told = f"the snapshot after event {snapshot.sequence}"
        if seal is None or zlib.crc32(snapshot.state, seal) != snapshot.seal:
            raise DamagedError(f"{told} does not fit the journal")
        try:
            campaign.restore(snapshot.state)
        except (StateError, LookupError, TypeError, ValueError) as error:
            if snapshot.version != __version__:  # an upgrade that cannot be, and no damage
                back = f"go back to bccb {snapshot.version}"
                raise LedgerError(f"{told} is not of this version: {error}: {back}") from error
            raise DamagedError(f"{told} cannot be read: {error}") from error
    return campaign


def _apply(
    ledger: Reader, campaign: Campaign, event: Event, opened: dict[str, list[Event]]
) -> None:
    """Make one event anew, and compare."""
    id_ = event.decision or ""
    match event.kind:
        case Kind.DECISION:
            opened[id_] = [event]
            x = campaign.trace(event)[: len(campaign.terms.features)]
            costs = campaign.costs(event)
            (made,) = campaign.deciding([event.at], [id_], x[None, :], costs[None, :])
        case Kind.OUTCOME | Kind.EXPIRY | Kind.CANCELLATION | Kind.SETTLEMENT:
            made = _follow(campaign, event, _known(ledger, campaign, event, opened))
            if event.kind != Kind.SETTLEMENT:
                opened.pop(id_, None)
            elif id_ in opened:
                opened[id_].append(event)
        case Kind.BUDGET:
            made = campaign.adding(event.at, id_, event.money)
        case Kind.LEARNED if event.detail is not None:
            made = campaign.learning(event.at, event.detail)
        case Kind.PAUSED | Kind.RESUMED | Kind.CLOSED:
            made = campaign.turning(event.at, Kind(event.kind))
        case _:
            raise DamagedError("there is no such kind")
    _compare(event, made)


def _follow(campaign: Campaign, event: Event, known: Known) -> Event:
    """What comes after a decision."""
    if event.kind == Kind.OUTCOME:
        if event.value is None or event.action is None:
            raise DamagedError("it has no value or no action")
        return campaign.observing(event.at, known, event.value, event.action)
    if event.kind == Kind.EXPIRY:
        return campaign.expiring(event.at, known)
    if event.kind == Kind.CANCELLATION:
        return campaign.cancelling(event.at, known)
    return campaign.settling(event.at, known, event.money)


def _known(
    ledger: Reader, campaign: Campaign, event: Event, opened: dict[str, list[Event]]
) -> Known:
    """What was known of the decision before this event."""
    id_ = event.decision or ""
    events = opened.get(id_)
    if events is None:
        events = ledger.known(campaign.key, [id_]).get(id_, [])
    known = Known.of([each for each in events if each.sequence < event.sequence])
    if known is None:
        raise DamagedError(f"there is no decision {id_!r} before it")
    return known


def _compare(event: Event, made: Event) -> None:
    if made == event:
        return
    for field, recorded, found in zip(Event._fields, event, made, strict=True):
        if recorded != found:
            raise DamagedError(f"{field} is {shown(recorded, 80)}, not {shown(found, 80)}")
