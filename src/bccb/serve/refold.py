"""Refolding: accept what this code makes of a journal that other code wrote.

The journal stays as it is, and so do its decisions and their money. What changes is the policy's
state: it is what this code would have learned from the same decisions and outcomes.
"""

from __future__ import annotations

from collections import Counter

from bccb.errors import InputError, StateError
from bccb.ledger.event import Event, Kind
from bccb.ledger.port import Account, DamagedError, Ledger
from bccb.serve.campaign import Campaign
from bccb.serve.recovery import OtherCodeError, fold, load, snapshot_of

# What other code may have decided otherwise; all else in a journal was given to it
DECIDED = {"action", "money", "price", "probability", "remaining", "detail"}


class Differences:
    """What this code computes differently from the record, and the campaign that keeps to it."""

    def __init__(self) -> None:
        self.first: int | None = None  # sequence of the first event that differs
        self.fields: Counter[str] = Counter()  # events that differ, by field
        self.events = 0

    def accept(self, campaign: Campaign, event: Event, made: Event) -> None:
        """Let the campaign go on from the recorded event; refuse what no code may change."""
        fields = {
            name
            for name, recorded, computed in zip(Event._fields, event, made, strict=True)
            if recorded != computed and name != "seal"
        }
        allowed = DECIDED if event.kind == Kind.DECISION else set()
        if not fields <= allowed:
            field = min(fields - allowed)
            values = f"{getattr(event, field)!r}, not {getattr(made, field)!r}"
            raise DamagedError(f"{field} is {values}")
        if fields:
            _keep_to(campaign, event, made)
            self.first = self.first or event.sequence
            self.fields.update(fields)
            self.events += 1
        campaign.seal = event.seal


def _keep_to(campaign: Campaign, event: Event, made: Event) -> None:
    """Let the campaign have decided what is recorded."""
    recorded, computed = event.action or 0, made.action or 0
    if len(event.detail or b"") != len(made.detail or b""):
        raise DamagedError("its trace has another layout")
    paid = int(campaign.costs(event)[recorded - 1]) if recorded else 0
    if paid != event.money:
        raise DamagedError(f"money is {event.money}, but its treatment costs {paid}")
    campaign.machine.have_paid(event.money, instead_of=made.money)
    campaign.reserved += event.money - made.money
    if not campaign.remaining == campaign.machine.remaining_micros == event.remaining:
        raise DamagedError("the money does not add up")
    pending, number = campaign.pending, event.number or 0
    if recorded != computed:
        campaign.machine.lose_sample()
        if pending.is_open(number) and not campaign.terms.shadow:
            pending.ring.arm[pending.place(number)] = recorded
    tally = campaign.tally
    tally.decisions[computed] -= 1
    tally.decisions[recorded] += 1
    if tally.points and tally.points[-1].decisions == event.number:
        tally.points[-1] = tally.points[-1]._replace(
            spent=campaign.spent + campaign.reserved,
            held=campaign.reserved,
            price=event.price or 0.0,
        )


def refold(ledger: Ledger, id_: str) -> tuple[Account, Differences]:
    """Fold a campaign's journal with this code, and keep the state as where this code begins.

    The ledger must be owned. A damaged journal is refused, and one that this code cannot follow.
    """
    account = ledger.account(id_)
    if account is None:
        raise InputError("campaign", id_, "the id of a campaign in this ledger")
    differences = Differences()
    try:
        campaign = load(ledger, account)
    except OtherCodeError as error:
        campaign = _follow(ledger, account, differences, error)
    ledger.begin()
    try:
        ledger.keep(account.key, snapshot_of(campaign, origin=True))
        ledger.commit()
    finally:
        ledger.roll_back()
    return account, differences


def _follow(
    ledger: Ledger, account: Account, differences: Differences, other: OtherCodeError
) -> Campaign:
    """The journal from its first event, with what is recorded where this code would differ."""
    try:
        return fold(ledger, account, None, differences.accept)
    except (DamagedError, OtherCodeError) as error:  # not damage: that was looked for before
        reason = f"campaign {account.id} cannot be folded by this code: {error.__cause__}"
        raise StateError(f"{reason}. Go back to {other.code}.") from error
