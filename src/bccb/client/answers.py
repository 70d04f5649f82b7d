"""What the service answers: frozen values, money as `decimal.Decimal`, times with their zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal


@dataclass(frozen=True, slots=True)
class UsersHorizon:
    """The campaign is planned for a number of users."""

    users: int


@dataclass(frozen=True, slots=True)
class TimeHorizon:
    """The campaign ends at a time."""

    ends_at: datetime
    expected_users: int | None


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """Which policy decides, and the parameters that are other than its defaults."""

    name: str
    params: dict[str, float]


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign, its money and its counts."""

    id: str
    name: str
    status: Literal["running", "paused", "closed", "quarantined"]
    reason: str | None  # why it is quarantined
    mode: Literal["live", "shadow"]
    created_at: datetime
    horizon: UsersHorizon | TimeHorizon
    features: tuple[str, ...]
    treatments: tuple[str, ...]
    policy: PolicyChoice
    outcome_window_seconds: int
    seed: int
    learned_from: str | None
    budget: Decimal
    spent: Decimal  # for treatments whose outcome or final cost is known
    reserved: Decimal  # for treatments whose outcome is not known yet
    remaining: Decimal
    decisions: int
    treated: int
    open: int  # decisions whose outcome is not known yet


@dataclass(frozen=True, slots=True)
class Campaigns:
    """All campaigns, the newest first."""

    campaigns: tuple[Campaign, ...]


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """What to do with a user."""

    decision_id: str
    treatment: str | None  # None: leave this user alone
    probability: float
    price: float
    remaining: Decimal
    act: bool  # False in a shadow campaign: do what your own system says


@dataclass(frozen=True, slots=True)
class OutcomeAnswer:
    """How a reported outcome was taken, and the value that counts now."""

    decision_id: str
    value: float
    status: Literal["recorded", "already_recorded", "too_late"]


@dataclass(frozen=True, slots=True)
class DecisionState:
    """A decision and its money, after it was cancelled or settled."""

    decision_id: str
    treatment: str | None
    status: Literal["open", "observed", "expired", "cancelled"]
    reserved: Decimal
    spent: Decimal
    remaining: Decimal  # of the campaign


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Arm:
    """The users of one action."""

    treatment: str | None  # None: left alone
    decisions: int
    outcomes: int  # how many of their outcomes are known
    conversions: float
    rate: Interval | None


@dataclass(frozen=True, slots=True)
class Series:
    """Points over time; all are equally many."""

    at: tuple[float, ...]  # Unix seconds
    decisions: tuple[int, ...]
    spent: tuple[float, ...]
    planned: tuple[float, ...]
    price: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What the page shows of a campaign."""

    campaign: Campaign
    now: datetime
    arms: tuple[Arm, ...]  # left alone first, then the treatments
    incremental: Interval | None  # conversions caused; None while that cannot be told
    decisions_per_second: float
    planned: Decimal
    money_ends_at: datetime | None
    series: Series
