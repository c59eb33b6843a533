"""Statements on a connection, and our views beside a table."""

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
"""The beginning of the comment of our views."""


def one_row(database: Connection, sql: str, *values: Any) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = run_sql(database, sql, *values).fetchone()
    return row


def run_sql(database: Connection, sql: str, *values: Any) -> Any:
    """Run a statement. With values, a percent sign in it must be doubled."""
    return database.execute(sql.encode(), values or None)


def views_of(database: Connection, schema: str, table: str) -> list[tuple[str, str]]:
    """Our views of a table, and the comment of each."""
    views: list[tuple[str, str]] = run_sql(database, _VIEWS, schema, table, f"{MARK}%").fetchall()
    return views


@contextmanager
def views_aside(database: Connection, schema: str, table: str) -> Iterator[None]:
    """Drop our views of a table while its columns change, and make them again after it, with their grants."""
    dropped = []
    for name, comment in views_of(database, schema, table):
        view = f"{double_quoted(schema)}.{double_quoted(name)}"
        row = one_row(database, "SELECT pg_get_viewdef(%s::regclass)", view)
        grants = run_sql(database, _GRANTS, view).fetchall()
        dropped.append((view, comment, "" if row is None else row[0], grants))
        run_sql(database, f"DROP VIEW {view}")
    yield
    for view, comment, statement, grants in dropped:
        run_sql(database, f"CREATE VIEW {view} AS {statement}")
        run_sql(database, f"COMMENT ON VIEW {view} IS {text_literal(comment)}")
        _grant(database, view, grants)


def make_view(database: Connection, schema: str, name: str, statement: str) -> bool:
    """Make a view, only if it differs from the existing one; that is replaced in place if its columns stay, because
    dropping it waits for its readers. Grants stay. False where something else has the name."""
    mark = f"{MARK}{blake2b(statement.encode(), digest_size=8).hexdigest()}"
    existing, view = one_row(database, _VIEW, schema, name), f"{double_quoted(schema)}.{double_quoted(name)}"
    if existing is not None and existing[0] != "v":
        return False
    if existing is not None and existing[1] == mark:
        return True
    try:
        with database.transaction():
            run_sql(database, f"CREATE OR REPLACE VIEW {view} AS {statement}")
    except driver().errors.InvalidTableDefinition:  # its columns change
        grants = run_sql(database, _GRANTS, view).fetchall()
        run_sql(database, f"DROP VIEW {view}")
        run_sql(database, f"CREATE VIEW {view} AS {statement}")
        _grant(database, view, grants)
    run_sql(database, f"COMMENT ON VIEW {view} IS {text_literal(mark)}")
    return True


def _grant(database: Connection, view: str, grants: list[tuple[str, str]]) -> None:
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
