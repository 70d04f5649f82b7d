"""Recovery: a campaign from its snapshot and the journal after it, every event checked.

Each event is made anew from what it tells of its cause, and must come out as it was recorded.
"""

from __future__ import annotations

import zlib

from bccb import __version__
from bccb.errors import BccbError
from bccb.ledger.event import Event, Kind
from bccb.ledger.ledger import Account, DamagedError, Ledger, LedgerError, Snapshot
from bccb.serve.campaign import Campaign, Known
from bccb.serve.terms import Terms


def load(ledger: Ledger, account: Account) -> Campaign:
    """A campaign as an uninterrupted process would have it."""
    snapshot = ledger.snapshot(account.key)
    if snapshot is None or snapshot.version == __version__:
        return fold(ledger, account, snapshot)
    if snapshot.sequence < account.sequence:
        told = f"bccb {snapshot.version} wrote events after its last snapshot of {account.id}"
        again = "start that version once more and stop it, which makes one"
        raise LedgerError(f"{told}, and this is {__version__}: {again}")
    return fold(ledger, account, snapshot)


def fold(ledger: Ledger, account: Account, snapshot: Snapshot | None) -> Campaign:
    """The fold of the journal, from a snapshot or from the first event."""
    try:
        campaign = _begin(ledger, account, snapshot)
        campaign.swept = account.swept
        opened: dict[str, list[Event]] = {}  # decisions without an end, among those folded here
        for event in ledger.events(account.key, campaign.sequence):
            _apply(ledger, campaign, event, opened)
    except LedgerError:
        raise
    except (
        BccbError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AssertionError,
    ) as error:
        told = f"{type(error).__name__}: {error}"
        raise DamagedError(
            f"the journal of campaign {account.id} cannot be read: {told}"
        ) from error
    if campaign.account() != account:
        told = f"its row says {account}, its journal {campaign.account()}"
        raise DamagedError(f"campaign {account.id} does not agree with its journal: {told}")
    return campaign


def snapshot_of(campaign: Campaign, origin: bool) -> Snapshot:
    """The state of a campaign, to be kept."""
    state = campaign.to_bytes()
    seal = zlib.crc32(state, campaign.seal)
    return Snapshot(campaign.sequence, __version__, int(origin), state, seal)


def _begin(ledger: Ledger, account: Account, snapshot: Snapshot | None) -> Campaign:
    """The campaign after its first event, or as the snapshot has it."""
    first = ledger.first(account.key)
    if first is None or first.kind != Kind.OPENED or first.detail is None:
        raise DamagedError(f"campaign {account.id} has no first event")
    campaign = Campaign(account.key, account.id, Terms.from_json(first.detail))
    _compare(campaign, first, campaign.opening())
    if snapshot is not None:
        seal = ledger.seal_at(account.key, snapshot.sequence)
        if seal is None or zlib.crc32(snapshot.state, seal) != snapshot.seal:
            told = f"the snapshot after event {snapshot.sequence} of campaign {account.id}"
            raise DamagedError(f"{told} does not fit the journal")
        campaign.restore(snapshot.state)
    return campaign


def _apply(
    ledger: Ledger, campaign: Campaign, event: Event, opened: dict[str, list[Event]]
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
            raise _damage(campaign, event, f"its kind is {event.kind!r}")
    _compare(campaign, event, made)


def _follow(campaign: Campaign, event: Event, known: Known) -> Event:
    """What comes after a decision."""
    if event.kind == Kind.OUTCOME:
        if event.value is None or event.action is None:
            raise _damage(campaign, event, "it has no value or no action")
        return campaign.observing(event.at, known, event.value, event.action)
    if event.kind == Kind.EXPIRY:
        return campaign.expiring(event.at, known)
    if event.kind == Kind.CANCELLATION:
        return campaign.cancelling(event.at, known)
    return campaign.settling(event.at, known, event.money)


def _known(
    ledger: Ledger, campaign: Campaign, event: Event, opened: dict[str, list[Event]]
) -> Known:
    """What was known of the decision before this event."""
    id_ = event.decision or ""
    events = opened.get(id_)
    if events is None:
        events = ledger.known(campaign.key, [id_]).get(id_, [])
    known = Known.of([each for each in events if each.sequence < event.sequence])
    if known is None:
        raise _damage(campaign, event, f"there is no decision {id_!r} before it")
    return known


def _compare(campaign: Campaign, event: Event, made: Event) -> None:
    if made == event:
        return
    for field, recorded, found in zip(Event._fields, event, made, strict=True):
        if recorded != found:
            raise _damage(campaign, event, f"{field} is {_short(recorded)}, not {_short(found)}")


def _damage(campaign: Campaign, event: Event, told: str) -> DamagedError:
    where = f"event {event.sequence} of campaign {campaign.id} ({event.kind})"
    return DamagedError(f"the journal is damaged at {where}: {told}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"
