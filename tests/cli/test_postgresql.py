"""The commands of the service on a ledger in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import server
from processes import TREAT_ALL, bccb, user

from bench.service.process import Server

# no server of ours asks for it
SECRET = "s3cr3t"


@pytest.fixture
def place() -> str:
    return server().new_place().replace("postgres@", f"postgres:{SECRET}@")


@pytest.fixture
def served(place: str, tmp_path: Path) -> Iterator[Server]:
    """A process that serves the ledger."""
    process = Server(place, log=tmp_path / "serve.log")
    try:
        process.wait()
        yield process
    finally:
        process.kill()


def test_a_ledger_in_postgresql_is_served_backed_up_restored_and_verified(
    served: Server, place: str, tmp_path: Path
) -> None:
    status, opened = served.call("POST", "/v1/campaigns", TREAT_ALL)
    assert status == 201
    for i in range(3):
        path = f"/v1/campaigns/{opened['id']}/decisions"
        assert served.call("POST", path, user(f"u{i}"))[0] == 200
    verified = bccb("ledger", "verify", place)
    assert verified.stdout == "1 campaigns, 4 events: whole\n"
    copied = bccb("ledger", "backup", place, tmp_path / "backup")
    assert copied.stdout == f"wrote 1 campaigns to {tmp_path / 'backup'}\n", copied.stderr
    restored = server().restored(tmp_path / "backup", place)
    assert bccb("ledger", "verify", restored).stdout == verified.stdout
    assert SECRET not in served.stderr()
    assert "ledger postgresql://postgres@/postgres" in " ".join(served.stderr().split())


def test_two_processes_serve_one_ledger(served: Server, place: str, tmp_path: Path) -> None:
    other = Server(place, log=tmp_path / "other.log")
    try:
        other.wait()
        assert served.call("GET", "/readyz")[0] == 200
    finally:
        other.kill()


def test_keys_are_made_listed_and_revoked(place: str) -> None:
    made = bccb("keys", "create", "shop", "--ledger", place)
    assert made.returncode == 0, made.stderr
    id_ = made.stdout.split("_")[1]
    assert id_ in bccb("keys", "list", "--ledger", place).stdout
    assert bccb("keys", "revoke", id_, "--ledger", place).stdout == f"key {id_} is revoked\n"
    assert bccb("keys", "revoke", id_, "--ledger", place).returncode == 2


@pytest.mark.parametrize("command", [("keys", "list", "--ledger"), ("ledger", "verify")])
def test_what_is_not_there_is_not_made_by_looking(place: str, command: tuple[str, ...]) -> None:
    ran = bccb(*command, place, columns=1_000)
    assert ran.returncode == 2
    assert "there is no ledger postgresql://" in ran.stderr
    assert "`bccb serve` makes it" in ran.stderr
    assert SECRET not in ran.stderr


def test_a_server_that_is_not_there_is_one_sentence_without_a_password() -> None:
    url = f"postgresql://shop:{SECRET}@127.0.0.1:1/none"
    ran = bccb("serve", "--port", 0, "--ledger", url)
    assert (ran.returncode, ran.stdout) == (2, "")
    (message,) = ran.stderr.splitlines()
    assert message.startswith("error: cannot open the ledger postgresql://shop@127.0.0.1:1/none: ")
    assert SECRET not in ran.stderr


def test_a_ledger_that_is_served_is_not_folded_again(served: Server, place: str) -> None:
    _, opened = served.call("POST", "/v1/campaigns", TREAT_ALL)
    refused = bccb("ledger", "refold", place, opened["id"])
    assert refused.returncode == 2
    assert "serves the ledger" in " ".join(refused.stderr.split())
    assert SECRET not in refused.stderr
    served.call("POST", f"/v1/campaigns/{opened['id']}/decisions", user("u"))
    served.stop()
    assert bccb("ledger", "refold", place, opened["id"]).returncode == 0
