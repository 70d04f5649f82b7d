"""Problems, and the state of the process."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from bccb.wire.fields import Answer


class Problem(Answer, frozen=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    field: Annotated[
        str | UnsetType, Meta(description="The field of the request that is wrong.")
    ] = UNSET


class Health(Answer, frozen=True):
    """The state of the process."""

    status: Literal["ok", "failing"]
    detail: str | UnsetType = UNSET
