"""Who may ask what: API keys and their scopes, and where none are needed."""

from __future__ import annotations

import ipaddress
import os
import re
import time
from contextlib import closing
from functools import lru_cache
from typing import Protocol

from bccb.errors import StateError
from bccb.ledger.keys import scope_of
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Key, LedgerError, MissingError, Scope
from bccb.serve.problem import ProblemError, not_durable

HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]@/]+))(?::[0-9]*)?")
FRESH = 1.0  # seconds for which keys are not read again: a revoked key may work for as long


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
    except LedgerError:  # an older one must be upgraded first: Access checks it then
        return
    _check_exposure(known, host)


class HasKeys(Protocol):
    """Knows the API keys: a ledger, or what reads them from it."""

    def keys(self) -> list[Key]:
        """All API keys, also revoked ones."""


class Access:
    """The keys of a ledger, read again every second."""

    def __init__(self, ledger: HasKeys, host: str) -> None:
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
        forwarded: bool = False,
    ) -> Scope | None:
        """Refuse a request that lacks the scope it needs; None where no key is needed.

        Gives the scope that it has, where one is needed.
        """
        known = self._keys if needed is None else self.known()
        if not known:  # a revoked key counts, too: revoking the last one opens nothing
            if forwarded:
                detail = "a proxy forwards this, but without API keys only this machine is served"
                raise ProblemError(403, "wrong-host", detail)
            _check_local(host, origin)
        if needed is None:
            return None
        if not known:
            return Scope.ADMIN
        kind, _, text = authorization.partition(" ")
        scope = scope_of(known, text.strip()) if kind.lower() == "bearer" else None
        if scope is None:
            detail = "this API key is unknown, or was revoked"
            if not authorization:
                detail = "an API key is needed: Authorization: Bearer bccb_..."
            raise ProblemError(401, "no-key", detail)
        if scope not in (needed, Scope.ADMIN):
            detail = f"this key has the scope {scope.value!r}, but {needed.value!r} is needed"
            raise ProblemError(403, "wrong-scope", detail)
        return scope


def _check_exposure(known: list[Key], host: str) -> None:
    good = any(key.revoked_at is None for key in known)
    if not good and not is_loopback(host):
        advice = "make one with `bccb keys create`, or serve on 127.0.0.1"
        raise StateError(f"{host} can be reached from elsewhere, and there is no API key: {advice}")


def _check_local(host: str, origin: str) -> None:
    """Refuse requests that the pages of other sites make a browser on this machine send."""
    if host and not is_loopback(_without_port(host)):  # a name of theirs that points here
        detail = f"the host is {host!r}, but without API keys only this machine is served"
        raise ProblemError(403, "wrong-host", detail)
    if origin and not is_loopback(_without_port(origin.rpartition("/")[2])):
        detail = f"the page is of {origin!r}, but without API keys only this machine is served"
        raise ProblemError(403, "wrong-origin", detail)


def _without_port(host: str) -> str:
    """The name in a Host header; none if it is not one.

    >>> _without_port("Localhost:8000"), _without_port("[::1]:8000"), _without_port("[::1].evil")
    ('localhost', '::1', '')
    """
    match = HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()
