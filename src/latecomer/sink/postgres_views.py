"""Statements on a connection, and views of ours beside a table: they are in the way where a column changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from latecomer.config.postgres_server import driver
from latecomer.store.sql import double_quoted, text_literal

if TYPE_CHECKING:
    from latecomer.config.postgres_server import Connection

MARK = "latecomer "
"""How the comment of a view of ours begins."""


def one_row(database: Connection, sql: str, *values: Any) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = run_sql(database, sql, *values).fetchone()
    return row


def run_sql(database: Connection, sql: str, *values: Any) -> Any:
    """Run a statement. Where it has values, a percent sign in it stands twice."""
    return database.execute(sql.encode(), values or None)


def views_of(database: Connection, schema: str, table: str) -> list[tuple[str, str]]:
    """The views of ours that show a table, and the comment of each."""
    found: list[tuple[str, str]] = run_sql(database, _VIEWS, schema, table, f"{MARK}%").fetchall()
    return found


@contextmanager
def views_aside(database: Connection, schema: str, table: str) -> Iterator[None]:
    """Our views of a table go while it changes, and are there again after it, with what was granted on them."""
    kept = []
    for name, comment in views_of(database, schema, table):
        view = f"{double_quoted(schema)}.{double_quoted(name)}"
        row = one_row(database, "SELECT pg_get_viewdef(%s::regclass)", view)
        grants = run_sql(database, _GRANTS, view).fetchall()
        kept.append((view, comment, "" if row is None else row[0], grants))
        run_sql(database, f"DROP VIEW {view}")
    yield
    for view, comment, statement, grants in kept:
        run_sql(database, f"CREATE VIEW {view} AS {statement}")
        run_sql(database, f"COMMENT ON VIEW {view} IS {text_literal(comment)}")
        _give(database, view, grants)


def make_view(database: Connection, schema: str, name: str, statement: str) -> bool:
    """Make a view anew only where it differs, and in its place if it keeps its columns: whoever reads it holds it. What
    was granted on it stays. False where something else has the name."""
    mark = f"{MARK}{blake2b(statement.encode(), digest_size=8).hexdigest()}"
    found, view = one_row(database, _VIEW, schema, name), f"{double_quoted(schema)}.{double_quoted(name)}"
    if found is not None and found[0] != "v":
        return False
    if found is not None and found[1] == mark:
        return True
    try:
        with database.transaction():
            run_sql(database, f"CREATE OR REPLACE VIEW {view} AS {statement}")
    except driver().errors.InvalidTableDefinition:  # other columns than it has
        grants = run_sql(database, _GRANTS, view).fetchall()
        run_sql(database, f"DROP VIEW {view}")
        run_sql(database, f"CREATE VIEW {view} AS {statement}")
        _give(database, view, grants)
    run_sql(database, f"COMMENT ON VIEW {view} IS {text_literal(mark)}")
    return True


def _give(database: Connection, view: str, grants: list[tuple[str, str]]) -> None:
    """Grant what was granted."""
    for who, privilege in grants:
        run_sql(database, f"GRANT {privilege} ON {view} TO {who}")


_VIEW = """
SELECT c.relkind::text, obj_description(c.oid, 'pg_class') FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_VIEWS = """
SELECT DISTINCT v.relname::text, obj_description(v.oid, 'pg_class') FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_class v ON v.oid = r.ev_class AND v.relkind = 'v'
JOIN pg_namespace n ON n.oid = v.relnamespace
JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass AND t.relnamespace = n.oid
WHERE n.nspname = %s AND t.relname = %s AND obj_description(v.oid, 'pg_class') LIKE %s
"""
_GRANTS = """
SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type
FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = %s::regclass AND a.grantee <> c.relowner
"""
