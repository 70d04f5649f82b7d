"""A typed client of the service: the same calls, waiting (`Client`) and awaited (`AsyncClient`)."""

from bccb.client.answers import (
    Arm,
    Campaign,
    DecisionAnswer,
    DecisionState,
    Interval,
    OutcomeAnswer,
    PolicyChoice,
    Report,
    Series,
    TimeHorizon,
    UsersHorizon,
)
from bccb.client.calls import AsDecided, Outcome, User
from bccb.client.problems import ServiceError, UnreachableError
from bccb.errors import MissingExtraError

try:
    from bccb.client.clients import AsyncClient, Client
except ImportError as error:
    if error.name != "httpx":
        raise
    raise MissingExtraError("httpx", "client") from None

__all__ = [
    "Arm",
    "AsDecided",
    "AsyncClient",
    "Campaign",
    "Client",
    "DecisionAnswer",
    "DecisionState",
    "Interval",
    "Outcome",
    "OutcomeAnswer",
    "PolicyChoice",
    "Report",
    "Series",
    "ServiceError",
    "TimeHorizon",
    "UnreachableError",
    "User",
    "UsersHorizon",
]
