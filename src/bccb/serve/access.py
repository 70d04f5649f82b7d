"""Who may ask what: API keys and their scopes, and where none are needed."""

from __future__ import annotations

import ipaddress
import os
import re
import time
from contextlib import closing
from functools import lru_cache

from bccb.errors import StateError
from bccb.ledger.keys import scope_of
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Key, LedgerError, MissingError, Reader, Scope
from bccb.serve.problem import ProblemError, not_durable

HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]@/]+))(?::[0-9]*)?")
FRESH = 1.0  # seconds for which keys are not read again: so long a revoked one may still work


@lru_cache(100)
def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(place: str | os.PathLike[str], host: str) -> None:
    """Refuse to be reached from elsewhere without an API key, before anything is opened."""
    known: list[Key] = []
    try:
        with closing(open_ledger(place, read_only=True)) as ledger:
            known = ledger.keys()
    except MissingError:
        pass  # a new ledger has no keys
    except LedgerError:  # an older one must be brought up first: Access checks it then
        return
    _check_exposure(known, host)


class Access:
    """The keys of a ledger, read again every second."""

    def __init__(self, ledger: Reader, host: str) -> None:
        self._ledger = ledger
        self._keys = ledger.keys()
        self._read_at = time.monotonic()
        _check_exposure(self._keys, host)

    def known(self) -> list[Key]:
        """All keys."""
        if time.monotonic() - self._read_at > FRESH:
            try:
                self._keys, self._read_at = self._ledger.keys(), time.monotonic()
            except LedgerError:
                raise not_durable("the API keys cannot be read") from None
        return self._keys

    def check(
        self,
        needed: Scope | None,
        host: str,
        authorization: str,
        origin: str = "",
        handed_on: bool = False,
    ) -> None:
        """Refuse a request that lacks the scope it needs; None where no key is needed."""
        known = self._keys if needed is None else self.known()
        if not known:  # also a key that was revoked is one: its going opens nothing
            if handed_on:
                told = "a proxy hands this on, but without API keys only this machine is served"
                raise ProblemError(403, "wrong-host", told)
            _check_local(host, origin)
        if not known or needed is None:
            return
        kind, _, text = authorization.partition(" ")
        found = scope_of(known, text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            told = "this API key is unknown, or was revoked"
            if not authorization:
                told = "an API key is needed: Authorization: Bearer bccb_..."
            raise ProblemError(401, "no-key", told)
        if found not in (needed, Scope.ADMIN):
            told = f"this key has the scope {found.value!r}, but {needed.value!r} is needed"
            raise ProblemError(403, "wrong-scope", told)


def _check_exposure(known: list[Key], host: str) -> None:
    good = any(key.revoked_at is None for key in known)
    if not good and not is_loopback(host):
        told = "make one with `bccb keys create`, or serve on 127.0.0.1"
        raise StateError(f"{host} can be reached from elsewhere, and there is no API key: {told}")


def _check_local(host: str, origin: str) -> None:
    """Refuse what the pages of others make a browser on this machine ask."""
    if host and not is_loopback(_without_port(host)):  # through a name of their own
        told = f"the host is {host!r}, but without API keys only this machine is served"
        raise ProblemError(403, "wrong-host", told)
    if origin and not is_loopback(_without_port(origin.rpartition("/")[2])):
        told = f"the page is of {origin!r}, but without API keys only this machine is served"
        raise ProblemError(403, "wrong-origin", told)


def _without_port(host: str) -> str:
    """The name in a Host header; none if it is not one.

    >>> _without_port("Localhost:8000"), _without_port("[::1]:8000"), _without_port("[::1].evil")
    ('localhost', '::1', '')
    """
    found = HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()
