"""A backup of a ledger in PostgreSQL, made by ``pg_dump``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from psycopg import conninfo

from bccb.files import written_whole
from bccb.ledger.port import LedgerError
from bccb.ledger.postgresql.connection import parameters_of
from bccb.ledger.postgresql.session import Session


def back_up(session: Session, path: str | os.PathLike[str]) -> None:
    """Write the ledger as it is now to a file for ``pg_restore``, whole or not at all."""
    program = shutil.which("pg_dump")
    if program is None:
        raise LedgerError(
            "pg_dump is not on the PATH: install PostgreSQL's client programs, "
            "of the server's version or newer"
        )
    ((schema,),) = session.rows("schema")
    with written_whole(path, private=True) as draft:
        _dump(session, program, schema, draft)


def _dump(session: Session, program: str, schema: str, draft: Path) -> None:
    parameters = parameters_of(session.url)
    password = parameters.pop("password", None)  # others can see the arguments of a process
    quoted = schema.replace('"', '""')
    # asked for by name, the first schema would be created again, which a new database has already
    only = [] if schema == "public" else [f'--schema="{quoted}"']
    ran = subprocess.run(
        [
            *(program, "--format=custom", "--no-owner", "--no-privileges", *only),
            *(f'--exclude-table-data="{quoted}".replicas', "--no-password", f"--file={draft}"),
            f"--dbname={conninfo.make_conninfo(**parameters)}",
        ],
        env={**os.environ, **({} if password is None else {"PGPASSWORD": password})},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        lines = [line.removeprefix("pg_dump: ") for line in ran.stderr.splitlines()]
        reason = "; ".join(line.removeprefix("error: ") for line in lines)
        if "server version mismatch" in reason:
            reason += "; put the pg_dump of the server's version first on the PATH"
        raise LedgerError(f"cannot back up the ledger {session.place}: {reason}")
