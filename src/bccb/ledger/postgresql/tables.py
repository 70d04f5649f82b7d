"""The tables of a ledger in PostgreSQL: made, checked and upgraded, also by several at once."""

from __future__ import annotations

from collections.abc import Callable

from bccb.ledger.port import DamagedError, LedgerError, MissingError
from bccb.ledger.postgresql import arrays
from bccb.ledger.postgresql.connection import SQL, Connection
from bccb.ledger.postgresql.session import Session
from bccb.ledger.statements import migrations, queries, schema

TABLES = {"ledger", "campaigns", "journal", "snapshots", "keys", "replicas"}
# What keeps the ledger right whatever its writers do
GUARDS = (
    *("never_overspent", "never_below_zero", "finite", "journal_pkey", "once"),
    *("journal_is_append_only", "journal_knows_its_campaigns", "campaigns_are_kept"),
)
MIGRATION_PATIENCE = 3_600.0  # seconds, for indices on long journals


def check(session: Session) -> None:
    """Find a ledger that this code can use; where there are no tables yet, make them."""
    found = _find(session)
    if not found and session.read_only:
        raise MissingError(f"there is no ledger {session.place}: `bccb serve` makes it")
    if not found:
        _change(session, _make)
    ((version, readable_by),) = session.rows("version")
    if readable_by > len(migrations(SQL)):
        needed = f"its schema is version {version}, and this bccb knows {len(migrations(SQL))}"
        raise LedgerError(f"cannot open the ledger {session.place}: {needed}: install a newer bccb")


def upgrade(session: Session) -> None:
    """Run the migrations that the ledger has not seen."""
    ((version, _),) = session.rows("version")
    if version < len(migrations(SQL)):
        _change(session, _migrate)


def check_guards(session: Session) -> None:
    """Refuse a ledger from which somebody took what keeps it right."""
    missing = [name for (name,) in session.rows("missing_guards", [arrays.texts(GUARDS)])]
    if missing:
        what = f"{', '.join(sorted(missing))} of its schema is missing or not at work"
        raise DamagedError(f"the ledger {session.place} is damaged: {what}")


def _find(session: Session) -> bool:
    """Whether there is a ledger; refuses tables of others that have our names."""
    found = TABLES & {name for (name,) in session.rows("tables")}
    if found and not {"ledger", "journal"} <= found:
        what = f"it is not a ledger of bccb, but has a table {min(found)}"
        raise LedgerError(f"cannot open the ledger {session.place}: {what}")
    return bool(found)


def _change(session: Session, steps: Callable[[Connection], str]) -> None:
    """Change the schema in one transaction, in which nobody else does."""
    with session.speaking("upgrade", MIGRATION_PATIENCE) as connection, connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SET LOCAL lock_timeout = '1min'")
        connection.execute(queries(SQL)["lock_schema"].encode())
        connection.execute(steps(connection).encode(), prepare=False)


def _make(connection: Connection) -> str:
    """The whole schema, unless another process has made it in the meantime."""
    tables = connection.execute(queries(SQL)["tables"].encode()).fetchall()
    return "" if ("ledger",) in tables else schema(SQL)


def _migrate(connection: Connection) -> str:
    """The steps from the version that it has."""
    ((version, _),) = connection.execute(queries(SQL)["version"].encode()).fetchall()
    return "".join(migrations(SQL)[version:])
