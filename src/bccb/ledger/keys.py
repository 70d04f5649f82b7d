"""API keys: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable

from bccb.errors import InputError
from bccb.ledger.port import Key, Ledger, Scope

PREFIX = "bccb"
SECRET_BYTES = 32  # so many that no slow hash is needed


def make_key(ledger: Ledger, name: str, scope: str) -> tuple[Key, str]:
    """A new key, and its text, which the owner must keep: it cannot be shown again."""
    if scope not in list(Scope):
        raise InputError("scope", scope, f"one of {', '.join(Scope)}")
    id_, secret = secrets.token_hex(4), secrets.token_urlsafe(SECRET_BYTES)
    key = Key(id_, name, Scope(scope), _digest(secret), time.time_ns() // 1000, None)
    ledger.add_key(key)
    return key, f"{PREFIX}_{id_}_{secret}"


def revoke_key(ledger: Ledger, id_: str) -> None:
    """From now on this key opens nothing."""
    if not ledger.revoke_key(id_, time.time_ns() // 1000):
        raise InputError("key", id_, "the id of a key that is not revoked")


def scope_of(known: Iterable[Key], text: str) -> Scope | None:
    """What the key with this text may do; None if there is no such key."""
    prefix, _, rest = text.partition("_")
    id_, _, secret = rest.partition("_")
    digest, scope = _digest(secret), None
    for key in known:
        good = key.id == id_ and prefix == PREFIX and key.revoked_at is None
        if hmac.compare_digest(key.digest, digest) and good:
            scope = key.scope
    return scope


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
