"""API keys: what the file keeps of them, and what opens."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from bccb.errors import InputError
from bccb.ledger.keys import make_key, revoke_key, scope_of
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Ledger, Scope


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite")
    yield opened
    opened.close()


def test_the_secret_is_nowhere_in_the_files(ledger: Ledger, tmp_path: Path) -> None:
    key, text = make_key(ledger, "shop", "decide")
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    ledger.close()
    kept += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    secret = text.split("_", 2)[2]
    raw = base64.urlsafe_b64decode(secret + "=")
    assert len(raw) == 32
    assert key.id.encode() in kept
    for hidden in (text.encode(), secret.encode(), raw, raw.hex().encode()):
        assert hidden not in kept


@pytest.mark.parametrize("scope", list(Scope))
def test_a_key_opens_what_its_scope_says(ledger: Ledger, scope: Scope) -> None:
    _, text = make_key(ledger, "shop", scope)
    make_key(ledger, "other", "admin")
    assert scope_of(ledger.keys(), text) == scope


def test_a_revoked_key_opens_nothing(ledger: Ledger) -> None:
    key, text = make_key(ledger, "shop", "read")
    _, other = make_key(ledger, "shop", "read")
    revoke_key(ledger, key.id)
    known = ledger.keys()
    assert scope_of(known, text) is None
    assert scope_of(known, other) == Scope.READ
    assert [result.revoked_at is None for result in known if result.id == key.id] == [False]


def test_a_key_is_revoked_once(ledger: Ledger) -> None:
    key, _ = make_key(ledger, "shop", "read")
    revoke_key(ledger, key.id)
    for id_ in (key.id, "00000000", ""):
        with pytest.raises(InputError, match="the id of a key that is not revoked"):
            revoke_key(ledger, id_)


def test_only_the_whole_text_of_a_key_opens(ledger: Ledger) -> None:
    one, text = make_key(ledger, "one", "admin")
    other, other_text = make_key(ledger, "other", "read")
    secret, other_secret = text.split("_", 2)[2], other_text.split("_", 2)[2]
    for wrong in (
        f"bccb_{one.id}_{other_secret}",  # the secret of another key
        f"bccb_{other.id}_{secret}",
        f"bccb_{one.id}_{secret[:-1]}",
        f"bccb_{one.id}_{secret}x",
        f"bccb_{one.id}_",
        f"bccb_{one.id}",
        f"BCCB_{one.id}_{secret}",
        f"bccb__{secret}",
        secret,
        one.id,
        one.digest.hex(),
        "",
        "bccb_é_\udce9".encode("utf-8", "replace").decode(),
    ):
        assert scope_of(ledger.keys(), wrong) is None, wrong
    assert scope_of(ledger.keys(), text) == Scope.ADMIN


def test_keys_are_listed_in_the_order_of_their_making(ledger: Ledger) -> None:
    made = [make_key(ledger, name, "read")[0] for name in ("c", "a", "b")]
    assert ledger.keys() == made


def test_an_unknown_scope_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="scope is 'root', but must be one of admin, decide, read"):
        make_key(ledger, "shop", "root")
    assert ledger.keys() == []


def test_no_two_keys_are_alike(ledger: Ledger) -> None:
    texts = {make_key(ledger, "shop", "read")[1] for _ in range(20)}
    assert len(texts) == 20
