"""`bccb serve`, `bccb keys` and `bccb ledger` as processes: what they print and how they end."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from processes import assert_whole, bccb, serving

from bccb.ledger.keys import scope_of
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Scope


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "bccb.sqlite"


def one_error(ran: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a command that failed."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    return line


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT], ids=lambda by: by.name)
def test_a_signal_stops_the_service_cleanly(ledger: Path, by: signal.Signals) -> None:
    with serving(ledger) as server:
        assert server.port != 0
        campaign = server.open()
        assert server.decide(campaign, "u0").status_code == 200
        assert server.stop(by) == 0
        message = server.stderr().splitlines()
    assert message == [f"ledger {ledger} · API at /docs · Ctrl-C to stop", "stopped"]
    with closing(sqlite3.connect(ledger)) as file:  # everything is in a snapshot
        kept = file.execute("SELECT campaign, sequence FROM snapshots").fetchall()
        assert kept == file.execute("SELECT key, sequence FROM campaigns").fetchall()
        assert kept == [(1, 2)]
    assert not Path(f"{ledger}-wal").exists()
    assert_whole(ledger)


def test_a_second_service_on_a_ledger_is_refused_and_the_first_goes_on(ledger: Path) -> None:
    with serving(ledger) as server:
        campaign = server.open()
        ran = bccb("serve", "--port", 0, "--ledger", ledger)
        assert one_error(ran) == f"error: another process serves the ledger {ledger}"
        assert server.decide(campaign, "u0").status_code == 200
        ran = bccb("serve", "--port", server.port, "--ledger", ledger.with_name("other.sqlite"))
        message = one_error(ran)
        assert message.startswith(f"error: address is '127.0.0.1:{server.port}', but must be free")
        assert not ledger.with_name("other.sqlite").exists()
        assert server.decide(campaign, "u1").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "no.such.host.invalid"], "no.such.host.invalid can be reached from"),
        (["--port", "70000"], "address is '127.0.0.1:70000', but must be"),
        (["--ledger", "nowhere/bccb.sqlite"], "cannot open the ledger nowhere/bccb.sqlite: unable"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = bccb("serve", *(["--port", 0] if "--port" not in arguments else []), *arguments)
    assert one_error(ran).startswith(f"error: {message}")


def test_without_keys_an_open_address_is_refused_before_anything_is_opened(ledger: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = bccb("serve", "--host", "0.0.0.0", "--port", port, "--ledger", ledger)
    message = one_error(ran)
    assert message.startswith(
        "error: 0.0.0.0 can be reached from elsewhere, and there is no API key"
    )
    assert not ledger.exists()


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
def test_an_address_of_the_newer_kind_is_printed_so_that_it_can_be_opened(ledger: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    with serving(ledger, "--host", "::1") as server:
        assert server.address == f"http://[::1]:{server.port}"
        assert server.status("/v1/campaigns") == 200


def test_keys_are_made_listed_and_revoked(ledger: Path) -> None:
    made = bccb("keys", "create", "the shop", "--scope", "read", "--ledger", ledger)
    assert made.returncode == 0
    text = made.stdout.strip()
    assert re.fullmatch(r"bccb_[0-9a-f]{8}_[\w-]{43}", text)
    id_ = text.split("_")[1]
    assert f"key {id_} for the shop, scope read; keep it, it is not shown again" in made.stderr
    assert text not in made.stderr
    bccb("keys", "create", "other", "--ledger", ledger)

    listed = bccb("keys", "list", "--ledger", ledger)
    assert listed.returncode == 0
    head, *rows = listed.stdout.splitlines()
    assert head.split() == ["id", "name", "scope", "made", "revoked"]
    assert rows[0].split()[:4] == [id_, "the", "shop", "read"]
    assert rows[1].split()[1:3] == ["other", "decide"]
    assert text.split("_", 2)[2] not in listed.stdout
    with closing(open_ledger(ledger, read_only=True)) as file:
        assert scope_of(file.keys(), text) == Scope.READ

    revoked = bccb("keys", "revoke", id_, "--ledger", ledger)
    assert (revoked.returncode, revoked.stdout) == (0, f"key {id_} is revoked\n")
    again = bccb("keys", "revoke", id_, "--ledger", ledger)
    assert one_error(again).startswith(f"error: key is '{id_}', but must be the id of a key that")
    with closing(open_ledger(ledger, read_only=True)) as file:
        assert scope_of(file.keys(), text) is None


def test_what_is_not_there_is_not_made_by_looking(ledger: Path) -> None:
    for arguments in (("keys", "list", "--ledger", ledger), ("ledger", "verify", ledger)):
        message = one_error(bccb(*arguments))
        assert message == f"error: there is no ledger {ledger}: `bccb serve` makes it"
    assert not ledger.exists()


def test_verify_beside_a_service_that_rests(ledger: Path) -> None:
    with serving(ledger) as server:
        campaign = server.open()
        server.decide(campaign, "u0")
        ran = bccb("ledger", "verify", ledger)
        assert ran.stdout == "1 campaigns, 2 events: whole\n"
        assert server.decide(campaign, "u1").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (["serve"], "bccb serve --host 0.0.0.0 --ledger campaigns.sqlite"),
        (["keys", "create"], "bccb keys create shop --scope decide"),
        (["ledger", "verify"], "bccb ledger verify bccb.sqlite"),
    ],
)
def test_help_has_an_example(arguments: list[str], example: str) -> None:
    ran = bccb(*arguments, "--help")
    assert ran.returncode == 0
    assert example in " ".join(ran.stdout.replace("│", " ").split())


def test_the_help_lists_the_service_after_the_lab(ledger: Path) -> None:
    printed = bccb("--help").stdout
    lab, service = printed.index("The lab"), printed.index("The service")
    assert lab < printed.index(" compare ") < service < printed.index(" serve ")


BLOCKED = {
    "serve": (["serve", "--port", "0"], ["starlette", "prometheus_client"]),
    "drive": (["drive"], ["httpx"]),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_a_command_whose_libraries_are_missing_says_which_extra_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, modules = BLOCKED[name]
    hook = f"import sys\nfor name in {modules}: sys.modules[name] = None"
    message = one_error(bccb(*arguments, hook=hook))
    assert re.fullmatch(
        r"error: (\S+) is not installed: pip install 'bccb\[(serve|client)\]', "
        r"or in a checkout pip install -e '\.\[(serve|client)\]'",
        message,
    ), message
    assert any(module in message for module in modules)
    listed = bccb("--help", hook=hook)  # and all other commands are as good as ever
    assert listed.returncode == 0
    assert "not installed" not in listed.stdout
    for described in ("Decide over HTTP", "API keys", "Send users", "Look after the ledger"):
        assert described in listed.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_core_and_the_lab_do_not_need_the_service(tmp_path: Path) -> None:
    blocked = [
        "starlette",
        "msgspec",
        "uvicorn",
        "httptools",
        "prometheus_client",
        "httpx",
    ]
    hook = f"import sys\nfor name in {blocked}: sys.modules[name] = None"
    ran = bccb("policies", hook=hook)
    assert ran.returncode == 0
    code = f"{hook}\nimport bccb; bccb.make('treat-all', budget=1, horizon=1, features=0)"
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


def test_a_backup_is_made_beside_a_running_service(ledger: Path) -> None:
    backup = ledger.with_name("backup.sqlite")
    with serving(ledger) as server:
        assert server.decide(server.open(), "u0").status_code == 200
        ran = bccb("ledger", "backup", ledger, backup)
        assert ran.stdout == f"wrote 1 campaigns to {backup}\n", ran.stderr
        assert ledger.stat().st_mode & 0o077 == 0  # for its owner alone
    assert_whole(backup)


def test_a_webhook_must_be_an_address_of_the_web(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    done = bccb("serve", "--ledger", ledger, "--webhook", "ftp://example.org/")
    assert done.returncode != 0
    assert "must be an http or https address" in done.stderr
    assert not ledger.exists()
