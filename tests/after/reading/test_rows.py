"""Rows that were read, and their first ones."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from latecomer.after.reading.rows import Rows


def test_a_head_keeps_all_but_the_other_rows() -> None:
    table = pa.table({"n": [1, 2, 3]})
    rows = Rows(table, "totals", "Asia/Kolkata", "nothing here", ("a note",), ("a warning",))
    head = rows.head(2)
    assert head.arrow().to_pydict() == {"n": [1, 2]}
    kept = [field.name for field in fields(Rows) if field.name != "table"]
    assert [getattr(head, name) for name in kept] == [getattr(rows, name) for name in kept]
