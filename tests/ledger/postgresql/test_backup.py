"""Backups of a ledger in PostgreSQL: what is told where there can be none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from postgresql import server

from bccb.ledger.port import LedgerError
from bccb.ledger.postgresql.ledger import PostgresqlLedger


@pytest.fixture
def ledger() -> Iterator[PostgresqlLedger]:
    with closing(PostgresqlLedger(server().new_place())) as opened:
        yield opened


def test_without_pg_dump_one_sentence_says_what_to_install(
    ledger: PostgresqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LedgerError, match="pg_dump is not on the PATH: install PostgreSQL's cli"):
        ledger.back_up(tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


def test_an_older_pg_dump_is_told_and_leaves_no_file(
    ledger: PostgresqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, folder = tmp_path / "programs", tmp_path / "backups"
    programs.mkdir()
    folder.mkdir()
    mismatch = "server version: 18.1; pg_dump version: 15.2"
    script = programs / "pg_dump"
    script.write_text(
        "#!/bin/sh\n"
        'echo "pg_dump: error: aborting because of server version mismatch" >&2\n'
        f'echo "pg_dump: detail: {mismatch}" >&2\nexit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    with pytest.raises(LedgerError, match=f"{mismatch}; put the pg_dump of the server's version"):
        ledger.back_up(folder / "backup")
    assert list(folder.iterdir()) == []


def test_a_backup_is_its_owners_alone_and_for_pg_restore(
    ledger: PostgresqlLedger, tmp_path: Path
) -> None:
    copy = tmp_path / "backup"
    ledger.back_up(copy)
    assert oct(copy.stat().st_mode & 0o777) == "0o600"
    ran = subprocess.run(
        [server().programs / "pg_restore", "--list", copy], capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert "TABLE DATA" in ran.stdout
    assert " replicas " in ran.stdout
    assert "TABLE DATA" not in "\n".join(
        line for line in ran.stdout.splitlines() if " replicas " in line
    )


def test_a_ledger_in_the_first_schema_of_a_database_is_restored_as_documented(
    tmp_path: Path,
) -> None:
    server().run("CREATE DATABASE first_one")
    with closing(PostgresqlLedger(server().url("first_one"))) as ledger:
        ledger.begin()
        ledger.add_campaign(1, "c1", "autumn")
        ledger.commit()
        ledger.back_up(tmp_path / "backup")
        accounts = ledger.accounts()
    server().run("CREATE DATABASE second_one")
    url = server().url("second_one")
    subprocess.run(
        [
            server().programs / "pg_restore",
            "--exit-on-error",
            f"--dbname={url}",
            tmp_path / "backup",
        ],
        check=True,
    )
    with closing(PostgresqlLedger(url)) as restored:
        restored.check_whole()
        assert restored.accounts() == accounts


def test_the_tables_of_others_in_the_database_are_kept_whole(tmp_path: Path) -> None:
    server().run("CREATE DATABASE shared_one")
    url = server().url("shared_one")
    server().run("CREATE SCHEMA theirs", url)
    server().run("CREATE TABLE theirs.replicas AS SELECT 'mine' AS name", url)
    with closing(PostgresqlLedger(url)) as ledger:
        with closing(ledger.replicas()) as replicas:
            replicas.beat("a", "a", "1", leaving=False)
        ledger.back_up(tmp_path / "backup")
    restored = server().restored(tmp_path / "backup", url.replace("/shared_one", "/postgres"))
    assert server().run("SELECT name FROM theirs.replicas", restored) == [("mine",)]
    assert server().run("SELECT id FROM replicas", restored) == []


def test_a_password_is_not_among_the_arguments(
    ledger: PostgresqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pg_dump"
    script.write_text('#!/bin/sh\necho "$@" >&2\necho "given $PGPASSWORD" >&2\nexit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    ledger._session.url = ledger._session.url.replace("postgres@", "postgres:s3cret@")
    with pytest.raises(LedgerError) as raised:
        ledger.back_up(tmp_path / "backup")
    assert str(raised.value).count("s3cret") == 1
    assert "given s3cret" in str(raised.value)
