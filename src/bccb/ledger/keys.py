"""API keys: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from bccb.errors import InputError
from bccb.ledger.ledger import Ledger

PREFIX = "bccb"
SECRET_BYTES = 32  # so many that no slow hash is needed


class Scope(StrEnum):
    """What a key may do: everything, decide and report, or look."""

    ADMIN = "admin"
    DECIDE = "decide"
    READ = "read"


class Key(NamedTuple):
    """A key, but for its secret."""

    id: str
    name: str
    scope: Scope
    digest: bytes
    created_at: int  # microseconds since 1970
    revoked_at: int | None


def make_key(ledger: Ledger, name: str, scope: str) -> tuple[Key, str]:
    """A new key, and the text that its owner must keep: nobody can tell it again."""
    if scope not in list(Scope):
        raise InputError("scope", scope, f"one of {', '.join(Scope)}")
    id_, secret = secrets.token_hex(4), secrets.token_urlsafe(SECRET_BYTES)
    key = Key(id_, name, Scope(scope), _digest(secret), time.time_ns() // 1000, None)
    ledger.write_key("add_key", key[:5])
    return key, f"{PREFIX}_{id_}_{secret}"


def keys(ledger: Ledger) -> list[Key]:
    """All keys, also those that were revoked."""
    return [Key(row[0], row[1], Scope(row[2]), *row[3:]) for row in ledger.key_rows()]


def revoke_key(ledger: Ledger, id_: str) -> None:
    """From now on this key opens nothing."""
    if not ledger.write_key("revoke_key", (time.time_ns() // 1000, id_)):
        raise InputError("key", id_, "the id of a key that is not revoked")


def scope_of(known: Iterable[Key], text: str) -> Scope | None:
    """What the key with this text may do; None if there is no such key."""
    prefix, _, rest = text.partition("_")
    id_, _, secret = rest.partition("_")
    digest, found = _digest(secret), None
    for key in known:
        good = key.id == id_ and prefix == PREFIX and key.revoked_at is None
        if hmac.compare_digest(key.digest, digest) and good:
            found = key.scope
    return found


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
