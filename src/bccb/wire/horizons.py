"""Horizons: how long a campaign runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from bccb.wire.fields import Users


class Horizon:
    """How long a campaign runs: for a number of users, or until a time."""

    __slots__ = ()


class UsersHorizon(Horizon, Struct, frozen=True, forbid_unknown_fields=True):
    """The campaign is planned for a number of users."""

    users: Annotated[Users, Meta(description="How many users are expected.")]


class TimeHorizon(Horizon, Struct, frozen=True, forbid_unknown_fields=True):
    """The campaign ends at a time; the money is paced by the clock until then."""

    ends_at: Annotated[
        datetime, Meta(tz=True, description="With its time zone, such as 2030-01-31T18:00:00Z.")
    ]
    expected_users: Annotated[
        Users | None, Meta(description="A forecast of the traffic, if there is one.")
    ] = None


def horizon_type(given: Any) -> type[UsersHorizon] | type[TimeHorizon]:
    """Which horizon a JSON object describes."""
    return TimeHorizon if isinstance(given, dict) and "ends_at" in given else UsersHorizon
