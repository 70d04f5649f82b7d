"""A typed client of the service: the same calls, waiting (`Client`) and awaited (`AsyncClient`)."""

from bccb.client.problems import ServiceError, UnreachableError
from bccb.errors import MissingExtraError

try:
    from bccb.client.clients import AsyncClient, Client
    from bccb.client.values import AsDecided, Outcome, User
    from bccb.wire import (
        Alert,
        ArmFigures,
        Campaign,
        DecisionAnswer,
        DecisionColumnsAnswer,
        DecisionState,
        Figure,
        OutcomeAnswer,
        PolicyChoice,
        Report,
        Series,
        TimeHorizon,
        UsersHorizon,
    )
except ImportError as error:
    if error.name not in ("httpx", "msgspec"):
        raise
    raise MissingExtraError(error.name, "client") from None

__all__ = [
    "Alert",
    "ArmFigures",
    "AsDecided",
    "AsyncClient",
    "Campaign",
    "Client",
    "DecisionAnswer",
    "DecisionColumnsAnswer",
    "DecisionState",
    "Figure",
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
