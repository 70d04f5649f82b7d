"""What becomes of decisions: outcomes, cancellations, settlements, and windows that pass.

All checks come before the first change. They run one at a time, in the
engine's task; ``at`` is the time in microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec import UNSET

from bccb.errors import StateError
from bccb.ledger.event import Kind, Known
from bccb.money import as_text, costs_up
from bccb.outcome import NOT_REPORTED, ReportStatus, status_of
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.problem import conflict, invalid, missing, unknown
from bccb.serve.views import money
from bccb.wire import DecisionState, OutcomeAnswer, OutcomeItem

SWEPT_AT_ONCE = 1_000
AGED_PER_WINDOW = 1_000  # times that users grow older at most
AGES_PER_USER = 10  # that pass while one user is decided on: most of them teach nothing
SWEEP_SECONDS = 0.05  # for all campaigns together: then requests have their turn


class Reports(NamedTuple):
    """One request, or a part of one: outcomes to record."""

    campaign_id: str
    items: Sequence[OutcomeItem]
    single: bool  # not a list
    first: int = 0  # the place of its first outcome in the whole list

    @property
    def size(self) -> int:
        """How many outcomes."""
        return len(self.items)

    def parts(self, most: int) -> Iterator[Reports]:
        """The same outcomes, so many at a time."""
        for i in range(0, self.size, most):
            yield self._replace(items=self.items[i : i + most], first=self.first + i)


class Plan:
    """What is to be recorded of each decision, and what is answered."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.done: dict[str, tuple[Known, int]] = {}  # the action alone
        self.reported: dict[str, tuple[Known, tuple[float, int]]] = {}  # outcome and action
        self.ended: dict[str, Known] = {}  # the window has passed, though it was not swept yet
        self.too_late: dict[str, tuple[Known, int]] = {}  # conversions, and their action
        self.answers: list[OutcomeAnswer] = []


def observe(books: Books, at: int, reports: Reports) -> list[OutcomeAnswer]:
    """Record outcomes, each once."""
    planned = plan(books, at, reports)
    campaign = planned.campaign
    for decided, action in planned.done.values():
        books.record(campaign, campaign.noting_action(at, decided, action))
    for decided, (value, action) in planned.reported.values():
        books.record(campaign, campaign.observing(at, decided, value, action))
    for decided in planned.ended.values():  # from now on, as answered, not from the next sweep
        books.record(campaign, campaign.expiring(at, decided))
    for decided, action in planned.too_late.values():
        books.record(campaign, campaign.counting_late(at, decided, action))
    return planned.answers


def plan(books: Books, at: int, reports: Reports) -> Plan:
    """Check outcomes, and change nothing."""
    campaign_id, items, single, first = reports
    campaign = books.campaign(campaign_id)
    known = books.known(campaign, [item.decision_id for item in items])
    planned = Plan(campaign)
    for i, item in enumerate(items, first):
        where = "" if single else f"{i}."
        decided = Known.of(known.get(item.decision_id, ()))
        if decided is None:
            detail = f"campaign {campaign_id} has made no decision {item.decision_id!r}"
            raise unknown(detail, None if single else f"{i}.decision_id")
        if item.value is UNSET and not campaign.terms.shadow:
            raise missing(f"{where}value")
        _check_value(campaign, item, where)
        action = _done(planned, decided, item, where)
        waits = decided.end is None and not _late(campaign, at, decided)
        value, status = _take(planned, waits, decided, item, action, where)
        planned.answers.append(OutcomeAnswer(item.decision_id, value, status))
        if decided.end is None and not waits:
            planned.ended[item.decision_id] = decided
    return planned


def _check_value(campaign: Campaign, item: OutcomeItem, where: str) -> None:
    """Refuse an outcome that is none of the campaign's kind."""
    if item.value is not UNSET:
        _check_range(campaign, item.value, f"{where}value")


def _check_range(campaign: Campaign, value: float, field: str) -> None:
    least, most, allowed = campaign.terms.outcome_range
    if not least <= value <= most:
        raise invalid(field, value, allowed)


def _done(planned: Plan, known: Known, item: OutcomeItem, where: str) -> int:
    """What was done to the user: as decided, or as the other system of a shadow campaign says."""
    terms = planned.campaign.terms
    if not terms.shadow:
        if item.action is not UNSET:
            raise invalid(f"{where}action", item.action, "absent: the campaign is no shadow")
        return known.decision.action or 0
    noted = planned.campaign.done(known)
    if item.decision_id in planned.done:
        _, noted = planned.done[item.decision_id]
    if item.action is UNSET:
        if noted is None:
            raise missing(f"{where}action", ": the treatment your system gave, or null for none")
        return noted
    if item.action is not None and item.action not in terms.position:
        raise invalid(
            f"{where}action", item.action, f"null or one of {', '.join(terms.treatments)}"
        )
    action = terms.position[item.action] if item.action is not None else 0
    if noted is not None and noted != action:
        detail = f"decision {item.decision_id!r} has another action already"
        raise conflict("outcome-differs", detail, f"{where}action")
    return action


def _take(
    planned: Plan, waits: bool, known: Known, item: OutcomeItem, action: int, where: str
) -> tuple[float | None, ReportStatus]:
    """Plan one report: the outcome that counts once it is in, and how it is received.

    ``waits`` says that the decision has no end, and its window has not passed.
    """
    campaign, id_, end = planned.campaign, item.decision_id, known.end
    alone = item.value is UNSET  # the action, and no outcome
    # without the sign of zero, which SQLite does not keep: seals would not fit
    value = NOT_REPORTED if item.value is UNSET else item.value + 0.0
    if end is not None and end.kind == Kind.CANCELLATION:
        detail = f"decision {id_!r} was cancelled"
        raise conflict("decision-cancelled", detail, f"{where}decision_id" if where else None)
    before = planned.reported[id_][1] if id_ in planned.reported else None
    if end is not None and end.kind == Kind.OUTCOME:
        before = end.value or 0.0, end.action or 0
    if before is not None:
        if before != (before[0] if alone else value, action):
            detail = f"decision {id_!r} has the outcome {before[0]:g} already"
            if known.correction is not None:
                detail += f", and was corrected to {known.value:g} since"
            elif not alone:
                detail += "; to change it, POST the right one to /correct of this decision"
            raise conflict("outcome-differs", detail, f"{where}{'action' if alone else 'value'}")
        return before[0] if known.correction is None else known.value, "already_recorded"
    if waits:
        if not alone:
            planned.reported[id_] = known, (value, action)
            return value, "recorded"
        if known.done is None and id_ not in planned.done:
            planned.done[id_] = known, action
            return None, "recorded"
        return None, "already_recorded"
    if value != NOT_REPORTED and known.too_late is None:
        planned.too_late[id_] = known, action
    # no outcome counts as none, but a shadow campaign that did not know the action learned nothing
    same = value == NOT_REPORTED and campaign.done(known) is not None
    return NOT_REPORTED, "already_recorded" if same else "too_late"


def _late(campaign: Campaign, at: int, known: Known) -> bool:
    """Whether the window has passed, though it was not swept yet."""
    return campaign.now(at) > known.decision.at + campaign.terms.window


def cancel(books: Books, at: int, campaign_id: str, decision: str) -> DecisionState:
    """Undo a decision whose treatment was not delivered."""
    campaign, known = _find(books, campaign_id, decision)
    if known.end is None and known.settlement is None and not _late(campaign, at, known):
        event = campaign.cancelling(at, known)
        books.record(campaign, event)
        known = known._replace(end=event)
    elif known.end is None or known.end.kind != Kind.CANCELLATION:
        detail = f"decision {decision!r} has an outcome, was settled or is too old to be cancelled"
        raise conflict("decision-ended", detail)
    return _state(campaign, known)


def correct(books: Books, at: int, campaign_id: str, decision: str, value: float) -> OutcomeAnswer:
    """Correct an outcome within its window, once."""
    campaign, known = _find(books, campaign_id, decision)
    y = value + 0.0  # without the sign of zero
    _check_range(campaign, y, "value")
    if known.correction is not None:
        if known.correction.value != y:
            detail = f"decision {decision!r} was corrected to {known.correction.value:g} already"
            raise conflict("correction-differs", detail, "value")
        return OutcomeAnswer(decision, y, "already_recorded")
    if known.end is None and not _late(campaign, at, known):
        detail = f"decision {decision!r} has no outcome yet: report it"
        raise conflict("no-outcome", detail)
    if known.end is not None and known.end.kind == Kind.CANCELLATION:
        raise conflict("decision-cancelled", f"decision {decision!r} was cancelled")
    if known.end is None or known.end.kind != Kind.OUTCOME or _late(campaign, at, known):
        detail = f"the window of decision {decision!r} has passed: its outcome stays"
        raise conflict("decision-ended", detail)
    try:
        event = campaign.correcting(at, known, y)
    except StateError as error:  # the corrected outcome costs more than is left
        raise conflict("not-enough-budget", str(error), "value") from None
    books.record(campaign, event)
    return OutcomeAnswer(decision, y, "recorded")


def settle(books: Books, at: int, campaign_id: str, decision: str, cost: str) -> DecisionState:
    """Settle what a treatment cost in the end."""
    campaign, known = _find(books, campaign_id, decision)
    micros, reserved = costs_up("cost", cost), known.decision.money
    if known.end is not None and known.end.kind == Kind.CANCELLATION:
        raise conflict("decision-cancelled", f"decision {decision!r} was cancelled")
    if not known.decision.action:
        raise conflict("not-treated", f"decision {decision!r} was to leave the user alone")
    on_conversion = campaign.machine.charges_on_conversion
    if known.settlement is None and on_conversion and not _has_converted(known):
        detail = f"costs are charged on conversion, and decision {decision!r} has none"
        raise conflict("not-converted", f"{detail}: it costs nothing")
    if micros > reserved:
        raise invalid("cost", cost, f"at most {as_text(reserved)}, what was reserved")
    if known.settlement is None:
        if not known.held:
            raise conflict("not-treated", f"the money for {decision!r} has returned already")
        if micros > known.held:  # a share of the amount
            raise invalid("cost", cost, f"at most {as_text(known.held)}, what was charged")
        event = campaign.settling(at, known, micros)
        books.record(campaign, event)
        known = known._replace(settlement=event)
    elif known.settlement.money != micros:
        detail = f"decision {decision!r} was settled at {as_text(known.settlement.money)}"
        raise conflict("settlement-differs", detail, "cost")
    return _state(campaign, known)


def _has_converted(known: Known) -> bool:
    end = known.end
    return end is not None and end.kind == Kind.OUTCOME and known.value != NOT_REPORTED


def _find(books: Books, campaign_id: str, decision: str) -> tuple[Campaign, Known]:
    campaign = books.campaign(campaign_id)
    known = Known.of(books.known(campaign, [decision]).get(decision, ()))
    if known is None:
        raise unknown(f"campaign {campaign_id} has made no decision {decision!r}")
    return campaign, known


def _state(campaign: Campaign, known: Known) -> DecisionState:
    held = known.held
    waits = known.end is None and known.settlement is None
    action = known.decision.action
    return DecisionState(
        decision_id=known.decision.decision or "",
        treatment=campaign.terms.treatments[action - 1] if action else None,
        status=status_of(known.end and known.end.kind),
        reserved=money(held if waits else 0),
        spent=money(0 if waits else held),
        remaining=money(campaign.remaining),
    )


def sweep(books: Books, at: int, only: str | None = None) -> bool:
    """Let outcomes count as none whose window has passed; whether there may be more to do.

    Of all campaigns, or of one.
    """
    more, deadline = False, time.monotonic() + SWEEP_SECONDS
    for campaign in books if only is None else [books.campaign(only)]:
        more = _age(books, at, books.campaign(campaign.id)) or more
        if campaign.open and campaign.now(at) >= campaign.sweep_at:
            more = _sweep(books, at, books.campaign(campaign.id), deadline) or more
        if time.monotonic() > deadline:
            return True
    return more


def _age(books: Books, at: int, campaign: Campaign) -> bool:
    """Let users who wait grow older, if that is due; whether there may be more to do.

    Not at every tick: a long window does not need it, and each time is an event of the journal.
    """
    now, pending = campaign.now(at), campaign.pending
    if now < campaign.age_at or not pending.is_due(float(now)):
        return False
    most = AGES_PER_USER * books.users_at_once(campaign.id)
    books.record(campaign, campaign.ageing(at, most))
    more = pending.is_due(float(now))
    campaign.age_at = now if more else now + campaign.terms.window // AGED_PER_WINDOW
    return more


def _sweep(books: Books, at: int, campaign: Campaign, deadline: float) -> bool:
    window = campaign.terms.window
    until = campaign.now(at) - window - 1
    next_ones = books.ledger.decisions_since(campaign.key, campaign.swept, SWEPT_AT_ONCE)
    due = list(takewhile(lambda event: event.at <= until, next_ones))
    first_to_come = next_ones[len(due)].at if len(due) < len(next_ones) else campaign.now(at)
    if not due:
        campaign.sweep_at = first_to_come + window + 1
        return False
    events = books.known(campaign, [event.decision or "" for event in due])
    for event in due:
        known = Known.of(events[event.decision or ""])
        if known is not None:
            if known.end is None:
                expiry = campaign.expiring(at, known)
                books.record(campaign, expiry)
                known = known._replace(end=expiry)
            campaign.balance.note(known, campaign.done(known))
        books.sweep(campaign, event.sequence)
        if time.monotonic() > deadline:
            return True
    return len(due) == SWEPT_AT_ONCE
