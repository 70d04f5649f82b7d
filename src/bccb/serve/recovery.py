"""Recovery: a campaign from its snapshot and the journal after it, every event checked.

Each event is computed again from what it records of its cause, and must be the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

from bccb.errors import BccbError, shown
from bccb.fitting import Fitted
from bccb.ledger.event import BESIDE_END, Event, Kind, Known, seal_of
from bccb.ledger.port import (
    Account,
    DamagedError,
    Reader,
    Snapshot,
    concerns_all,
)
from bccb.outcome import STATUS_AFTER
from bccb.serve.campaign import Campaign
from bccb.serve.code import Code, this_code
from bccb.serve.terms import Terms

PAGE = 10_000  # decisions that are read together
TOGETHER = 1_000  # events that are folded together
FOLLOWS = {*STATUS_AFTER, *BESIDE_END}  # kinds of events that come after a decision

Accept: TypeAlias = Callable[[Campaign, Event, Event], None]  # campaign, recorded, computed
Opened: TypeAlias = dict[str, list[Event]]  # the events of decisions without an end


class OtherCodeError(BccbError):
    """The journal is whole, but other code wrote it, and this code computes something else."""

    def __init__(self, campaign: str, code: Code, error: DamagedError) -> None:
        back = "go back to that version"
        if not isinstance(error, _UnreadableError):
            back = "start that version once more and stop it, which keeps a snapshot"
        super().__init__(
            f"other code wrote the last events of campaign {campaign} ({code}; this is "
            f"{this_code()}) and made something else of them: {error}. Either {back}, or stop the "
            f"service and accept what this code makes of them: bccb ledger refold FILE {campaign}"
        )
        self.code, self.difference = code, str(error)


class SnapshotError(DamagedError):
    """A snapshot that cannot be used; the journal may be whole."""


class _UnreadableError(SnapshotError):
    """A snapshot that fits the journal, but not this code."""


class Recovered(NamedTuple):
    """A campaign after a start."""

    campaign: Campaign
    used: Snapshot | None  # from which it was folded
    unusable: list[Snapshot]  # that were tried before, the newest first
    reasons: list[str]  # why they cannot be used

    @property
    def begin(self) -> int:
        """The first event that was folded."""
        return 1 if self.used is None else self.used.sequence + 1


def recover(ledger: Reader, account: Account, snapshot: Snapshot | None) -> Recovered:
    """The fold from a snapshot or, where that cannot be used, from an older one or the first event.

    The journal is the truth, and all of its events that are folded are checked: a snapshot only
    saves time.
    """
    errors: list[SnapshotError] = []
    unusable: list[Snapshot] = []
    while True:
        try:
            campaign = fold(ledger, account, snapshot)
        except SnapshotError as error:
            assert snapshot is not None
            errors.append(error)
            unusable.append(snapshot)
            older = ledger.origin(account.key)
            is_older = older is not None and older.sequence < snapshot.sequence
            snapshot = older if is_older else None
        except OtherCodeError:
            if errors:  # its advice needs a snapshot that can be used
                raise errors[0] from errors[0].__cause__
            raise
        except DamagedError:
            # other code wrote before a first snapshot, perhaps after this one had opened it
            if any(each.origin for each in unusable) and _is_sealed(ledger, account):
                raise errors[0] from errors[0].__cause__
            raise
        else:
            return Recovered(campaign, snapshot, unusable, [str(each.__cause__) for each in errors])


def load(ledger: Reader, account: Account) -> Campaign:
    """A campaign as an uninterrupted process would have it."""
    return fold(ledger, account, ledger.snapshot(account.key))


def fold(
    ledger: Reader, account: Account, snapshot: Snapshot | None, accept: Accept | None = None
) -> Campaign:
    """The fold of the journal, from a snapshot or from the first event.

    ``accept`` compares each event with what this code computes; by default they must be the same.
    A difference is damage, unless the journal is sealed as it was and other code wrote it.
    """
    with _damage_named(account):
        try:
            campaign, opened = _folded(ledger, account, snapshot, accept or compare)
        except DamagedError as error:
            code = _code_of(ledger, account, snapshot)
            if code is None or code.is_this:
                raise
            _check_untouched(ledger, account, snapshot)
            raise OtherCodeError(account.id, code, error) from error
        _check_row(account, campaign, opened)
    return campaign


def _folded(
    ledger: Reader, account: Account, snapshot: Snapshot | None, accept: Accept
) -> tuple[Campaign, Opened]:
    """The campaign after its last event, and which of the folded decisions have no end."""
    campaign = _begin(ledger, account, snapshot)
    return campaign, _follow_journal(ledger, account, campaign, accept)


def catch_up(ledger: Reader, account: Account, campaign: Campaign) -> None:
    """Fold what another process has added to the journal; after an error it is half done."""
    with _damage_named(account):
        _check_row(account, campaign, _follow_journal(ledger, account, campaign, compare))


def _follow_journal(ledger: Reader, account: Account, campaign: Campaign, accept: Accept) -> Opened:
    """Fold the rest of the journal; which of these decisions have no end."""
    campaign.swept = account.swept
    opened: Opened = {}
    events = ledger.events(account.key, campaign.sequence)
    if ledger.shared:  # what comes later was added by another process since the row was read
        events = takewhile(lambda each: each.sequence <= account.sequence, events)
    while some := list(islice(events, TOGETHER)):
        earlier = _earlier(ledger, account, some, opened)
        for event in some:
            with _placed(event):
                accept(campaign, event, _apply(campaign, event, opened, earlier))
    return opened


def _earlier(ledger: Reader, account: Account, events: list[Event], opened: Opened) -> Opened:
    """All events of decisions that were made before these events, and that these events follow.

    They are read together: one query for each would take longer than everything else.
    """
    here = {event.decision for event in events if event.kind == Kind.DECISION}
    after = {event.decision for event in events if event.kind in FOLLOWS and event.decision}
    missing = sorted(after - here - opened.keys())
    return ledger.known(account.key, missing) if missing else {}


def code_of(terms: Terms, snapshot: Snapshot | None) -> Code:
    """Which code wrote the events after a snapshot, or after the opening."""
    if snapshot is None:
        return Code(terms.version, terms.fingerprint)
    return Code(snapshot.version, snapshot.fingerprint)


def _code_of(ledger: Reader, account: Account, snapshot: Snapshot | None) -> Code | None:
    """The same where the terms may not be readable."""
    try:
        first = ledger.first(account.key)
        return code_of(Terms.from_json((first and first.detail) or b""), snapshot)
    except (LookupError, TypeError, ValueError):
        return None


def check_seals(ledger: Reader, account: Account, until: int) -> None:
    """Refuse a journal that was changed up to an event, without computing its events again."""
    with _damage_named(account):
        _check_seals(ledger, account, until)


def _check_seals(ledger: Reader, account: Account, until: int) -> None:
    seal = 0
    for event in takewhile(lambda each: each.sequence <= until, ledger.events(account.key)):
        seal = seal_of(event, seal)
        if seal != event.seal:
            raise DamagedError(f"event {event.sequence} ({event.kind}) does not fit its seal")


def _is_sealed(ledger: Reader, account: Account) -> bool:
    """Whether all events are as they were written."""
    try:
        _check_seals(ledger, account, account.sequence)
    except DamagedError:
        return False
    return True


def _check_untouched(ledger: Reader, account: Account, snapshot: Snapshot | None) -> None:
    """Refuse a journal, row or snapshot that was changed, whichever code wrote it."""
    _check_seals(ledger, account, account.sequence)
    if ledger.seal_at(account.key, account.sequence) != account.seal:
        raise DamagedError("its row does not fit its last event")
    if snapshot is not None and not _fits(ledger, account, snapshot):
        raise DamagedError(_unfit(snapshot))


def _unfit(snapshot: Snapshot) -> str:
    return f"the snapshot after event {snapshot.sequence} does not fit the journal"


@contextmanager
def _damage_named(account: Account) -> Iterator[None]:
    """Say of which campaign the damage is."""
    try:
        yield
    except DamagedError as error:
        raise type(error)(f"campaign {account.id} is damaged: {error}") from error


def _fits(ledger: Reader, account: Account, snapshot: Snapshot) -> bool:
    """Whether a snapshot is as it was kept, after an event of this journal."""
    seal = ledger.seal_at(account.key, snapshot.sequence)
    return seal is not None and zlib.crc32(snapshot.state, seal) == snapshot.seal


@contextmanager
def _placed(event: Event) -> Iterator[None]:
    """Name the event of any error: whatever error damage leads to, it is reported as damage."""
    try:
        yield
    except Exception as error:
        if concerns_all(error):
            raise  # it cannot be read now
        detail = f"at event {event.sequence} ({event.kind}): {error or type(error).__name__}"
        raise DamagedError(detail) from error


def _check_row(account: Account, campaign: Campaign, opened: Opened) -> None:
    """Refuse a row that differs from the journal."""
    for field, recorded, computed in zip(Account._fields, account, campaign.account(), strict=True):
        if recorded != computed:
            detail = f"{field} is {recorded!r}, but {computed!r} after its last event"
            raise DamagedError(f"in its row {detail}")
    waiting = min((events[0].sequence for events in opened.values()), default=account.swept + 1)
    if not waiting > account.swept <= account.sequence:
        detail = f"swept is {account.swept}, but event {waiting} has no end"
        raise DamagedError(f"in its row {detail}")


def snapshot_of(campaign: Campaign, origin: bool) -> Snapshot:
    """The state of a campaign, to be kept."""
    state = campaign.to_bytes()
    seal = zlib.crc32(state, campaign.seal)
    code = this_code()
    return Snapshot(campaign.sequence, code.version, int(origin), state, seal, code.fingerprint)


def _begin(ledger: Reader, account: Account, snapshot: Snapshot | None) -> Campaign:
    """The campaign after its first event, or as the snapshot has it."""
    first = ledger.first(account.key)
    if first is None or first.sequence != 1:
        raise DamagedError("event 1 is missing")
    with _placed(first):
        if first.kind != Kind.OPENED or first.detail is None:
            raise DamagedError("it is not an opening")
        campaign = Campaign(account.key, account.id, Terms.from_json(first.detail))
        compare(campaign, first, campaign.opening())
    if snapshot is not None:
        if not _fits(ledger, account, snapshot):
            raise SnapshotError(_unfit(snapshot))
        try:
            know_again(ledger, campaign, campaign.restore(snapshot.state))
        except Exception as error:
            if concerns_all(error):
                raise  # it cannot be read now
            kept = f"the snapshot after event {snapshot.sequence} cannot be read"
            raise _UnreadableError(f"{kept}: {error or type(error).__name__}") from error
    return campaign


def know_again(ledger: Reader, campaign: Campaign, event: int) -> None:
    """Read the users who wait from the journal, from this event on."""
    pending, after = campaign.pending, event - 1
    while event and after < campaign.sequence:
        page = ledger.decisions_since(campaign.key, after, PAGE)
        for each in page:
            if each.sequence > campaign.sequence or each.number is None:
                break
            x = campaign.trace(each)[: campaign.terms.columns]
            pending.refill(each.number, x, float(each.at), each.sequence)
        if not page or page[-1].number == pending.last:
            return
        after = page[-1].sequence


def _apply(campaign: Campaign, event: Event, opened: Opened, earlier: Opened) -> Event:
    """Compute one event again."""
    id_ = event.decision or ""
    match event.kind:
        case Kind.DECISION:
            opened[id_] = [event]
            x = campaign.trace(event)[: campaign.terms.columns]
            costs, raw = campaign.costs(event), campaign.raw(event)
            (made,) = campaign.deciding([event.at], [id_], x[None, :], costs[None, :], [raw])
        case kind if kind in FOLLOWS:
            made = _follow(campaign, event, _known(event, opened, earlier))
            if event.kind in STATUS_AFTER and id_ in opened:
                earlier[id_] = opened.pop(id_)
            (opened if id_ in opened else earlier)[id_].append(event)
        case Kind.AGED if event.number is not None:
            made = campaign.ageing(event.at, event.number)
        case Kind.BUDGET:
            made = campaign.adding(event.at, id_, event.money)
        case Kind.GIVEN | Kind.RECEIVED:
            made = campaign.shifting(event.at, Kind(event.kind), id_, event.money)
        case Kind.LEARNED if event.detail is not None:
            made = campaign.learning(event.at, event.detail, event.decision)
        case Kind.FITTED if event.detail is not None:
            made = campaign.fitting(event.at, Fitted.from_bytes(event.detail))
        case Kind.PAUSED | Kind.RESUMED | Kind.CLOSED:
            made = campaign.turning(event.at, Kind(event.kind))
        case _:
            raise DamagedError("there is no such kind")
    return made


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
    if event.kind == Kind.SETTLEMENT:
        return campaign.settling(event.at, known, event.money)
    if event.kind == Kind.CORRECTION:
        if event.value is None or known.end is None:
            raise DamagedError("it has no value, or the decision had no outcome")
        return campaign.correcting(event.at, known, event.value)
    if event.action is None:
        raise DamagedError("it has no action")
    if event.kind == Kind.DONE:
        return campaign.noting_action(event.at, known, event.action)
    return campaign.counting_late(event.at, known, event.action)


def _known(event: Event, opened: Opened, earlier: Opened) -> Known:
    """What was known of the decision before this event."""
    id_ = event.decision or ""
    events = opened.get(id_) or earlier.get(id_, [])
    known = Known.of([each for each in events if each.sequence < event.sequence])
    if known is None:
        raise DamagedError(f"there is no decision {id_!r} before it")
    return known


def compare(campaign: Campaign, event: Event, made: Event) -> None:
    """Refuse an event that does not come out as it was recorded."""
    if made == event:
        return
    for field, recorded, computed in zip(Event._fields, event, made, strict=True):
        if recorded != computed:
            raise DamagedError(f"{field} is {shown(recorded, 80)}, not {shown(computed, 80)}")
