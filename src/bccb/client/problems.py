"""What can go wrong between the client and the service."""

from __future__ import annotations

from bccb.errors import BccbError


class ServiceError(BccbError):
    """The service refused a call, or answered what is no answer.

    >>> problem = ServiceError(422, "about:blank", "must be a number", "features.age")
    >>> str(problem), problem.field
    ('the service answered 422: must be a number (features.age)', 'features.age')
    """

    def __init__(self, status: int, kind: str, detail: str, field: str | None = None) -> None:
        where = f" ({field})" if field else ""
        super().__init__(f"the service answered {status}: {detail}{where}")
        self.status, self.type, self.detail, self.field = status, kind, detail, field


class UnreachableError(BccbError, ConnectionError):
    """No answer came, whatever was tried. Whether the call was carried out is not known; to make
    the same call with the same ids again is safe.
    """

    def __init__(self, url: str, reason: str, tries: int) -> None:
        times = f" after {tries} tries" if tries > 1 else ""
        super().__init__(f"no answer from {url}{times}: {reason}")
        self.url = url
