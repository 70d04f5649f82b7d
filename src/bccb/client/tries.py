"""The tries of one call: when to give one up, when to try again, and what comes of them.

Nothing here sends or waits: the two clients do, each in its way.
"""

from __future__ import annotations

import random
import time
from typing import Any, Generic, TypeVar

import httpx

from bccb.client.calls import Call
from bccb.client.problems import ServiceError, UnreachableError
from bccb.errors import InputError

T = TypeVar("T")

AGAIN = frozenset({502, 503, 504})  # of a gateway, or not now: nothing is wrong with the call
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds
LONGEST_WAIT, DIGITS = 30.0, 10  # seconds of Retry-After that are waited for, and their digits
CONNECT = 2.0  # seconds
SHOWN = 200  # characters of an answer that is none


class Tries(Generic[T]):
    """One call until it has an answer: at first at once, then after pauses that double.

    Pauses are drawn from the upper half of their range, so that clients that failed together do
    not come back together; each is at least as long as the service asks for. None begins that
    would end after ``patience`` seconds.
    """

    def __init__(self, call: Call[T], url: str, timeout: float, patience: float) -> None:
        self.call, self.url, self.timeout, self.patience = call, url, timeout, patience
        self.began, self.count, self.pause = time.monotonic(), 0, 0.0
        self.answers: list[T] = []

    @property
    def left(self) -> float:
        """Seconds of patience."""
        return self.patience - (time.monotonic() - self.began)

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The next try."""
        silence = self.timeout if not self.count else max(min(self.timeout, self.left), 0.001)
        connect = min(CONNECT, silence)
        self.count += 1
        return http.build_request(
            self.call.method,
            self.call.path,
            content=self.call.body,
            headers={} if self.call.body is None else {"Content-Type": self.call.content_type},
            timeout=httpx.Timeout(max(silence, self.call.silence), connect=connect),
        )

    def failed(self, error: httpx.TransportError) -> None:
        """No answer: pause, or give up."""
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            raise InputError("what is sent", str(error), "what HTTP allows") from None
        if not self._try_again():
            reason = str(error) or type(error).__name__
            raise UnreachableError(self.url, reason, self.count) from None

    def answered(self, response: httpx.Response) -> None:
        """An answer, or an error that ends the call or leads to another try."""
        if response.is_success:
            self.answers.append(self._parsed(response))
        elif response.status_code not in AGAIN or not self._try_again(_retry_after(response)):
            raise _problem(response)

    def _try_again(self, least: float = 0.0) -> bool:
        """Whether there is time for another try, after a pause of at least so many seconds."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.count - 1, 16))
        self.pause = max(random.uniform(longest / 2, longest), least * random.uniform(1.0, 1.1))
        return self.pause < self.left

    def _parsed(self, response: httpx.Response) -> T:
        if self.call.target is not None:
            return self.call.parse(b"")
        try:
            return self.call.parse(response.content)
        except (ValueError, RecursionError) as error:
            detail = f"not as this client knows the service ({error}): {response.text[:SHOWN]!r}"
            raise ServiceError(response.status_code, "about:blank", detail) from None


def _retry_after(response: httpx.Response) -> float:
    """The seconds that the service asks to wait; a date, or what is no number, is ignored.

    >>> _retry_after(httpx.Response(503, headers={"Retry-After": "3"}))
    3.0
    """
    text = response.headers.get("Retry-After", "").strip()
    whole = text.isascii() and text.isdecimal() and len(text) < DIGITS
    return min(float(text), LONGEST_WAIT) if whole else 0.0


def _problem(response: httpx.Response) -> ServiceError:
    """What the service says is wrong, or what else stands there."""
    try:
        problem: Any = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "detail" not in problem:
        problem = {"detail": response.text[:SHOWN] or response.reason_phrase}
    kind, field = str(problem.get("type", "about:blank")), problem.get("field")
    detail = str(problem["detail"])
    return ServiceError(response.status_code, kind, detail, None if field is None else str(field))
