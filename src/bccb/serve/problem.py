"""What is answered where something is wrong: RFC 9457 problem documents."""

from __future__ import annotations

from msgspec import UNSET

from bccb.errors import BccbError, is_shortage, shown
from bccb.wire import Problem

LONGEST = 100  # characters of a value in a message
NOT_DURABLE = "not-durable"


class ProblemError(BccbError):
    """A refusal: nothing was changed."""

    def __init__(self, status: int, kind: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.field = status, kind, detail, field

    def document(self) -> Problem:
        """The answer's body."""
        return Problem(
            type=f"urn:bccb:problem:{self.kind}",
            title=self.kind.replace("-", " ").capitalize(),
            status=self.status,
            detail=self.detail,
            field=UNSET if self.field is None else self.field,
        )


def invalid(field: str, value: object, allowed: str) -> ProblemError:
    """A field is not as it must be."""
    detail = f"{field} is {shown(value, LONGEST)}, but must be {allowed}"
    return ProblemError(422, "invalid-field", detail, field)


def missing(field: str, allowed: str = "") -> ProblemError:
    """A field is not there."""
    return ProblemError(422, "invalid-field", f"{field} is missing{allowed}", field)


def conflict(kind: str, detail: str, field: str | None = None) -> ProblemError:
    """A request contradicts what is already so."""
    return ProblemError(409, kind, detail, field)


def unknown(detail: str, field: str | None = None) -> ProblemError:
    """There is no such thing."""
    return ProblemError(404, "unknown", detail, field)


def internal(detail: str) -> ProblemError:
    """An error of ours; nothing was done."""
    return ProblemError(500, "internal", detail)


def problem_of(error: Exception, detail: str) -> ProblemError:
    """What to answer for an error that nobody expected: ours, or a shortage that will pass."""
    if is_shortage(error):
        return not_durable(
            f"{getattr(error, 'strerror', None) or 'out of memory'}: try again later"
        )
    return internal(detail)


def not_durable(detail: str) -> ProblemError:
    """What was asked could not be kept, and so was not done."""
    return ProblemError(503, NOT_DURABLE, detail)
