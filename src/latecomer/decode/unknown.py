"""Fields that the pipeline does not declare, as JSON text. `model/unknown_fields.py` says which they are."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from latecomer.model.unknown_fields import BETWEEN, cutting, finding, known_fields
from latecomer.store.sql import quoted

_WRITTEN = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def cut(text: Column, columns: Mapping[str, str]) -> Column:
    """A record of JSON without the fields that are columns, for `kept`; one that cannot be cut, as it is."""
    pattern, replacement = cutting(known_fields(columns))
    return F.regexp_replace(text, F.lit(pattern), F.lit(replacement))


def kept(left: Column, text: Column, columns: Mapping[str, str]) -> Column:
    """What is kept of a record that was `cut`. One that could not be is kept whole if it has a field that is no
    column."""
    known = known_fields(columns)
    names = F.array(*(F.lit(name) for name in sorted({*known.values} - {*known.objects}))).cast(
        "array<string>"
    )
    others = F.size(F.array_except(F.json_object_keys(text), names)) > 0
    members = F.concat(F.lit("{"), F.rtrim(left, F.lit(BETWEEN)), F.lit("}"))
    return F.when(F.startswith(left, F.lit('"')), members).when((left != "") & others, text)


def as_written(text: Column, name: str, value: Column) -> Column:
    """A text column of a record: where the field has no text but a number, a list or an object, as it is written there.
    `from_json` would write it anew."""
    number = F.contains(value, F.lit(".")) & value.rlike("^-?[0-9.]+(E-?[0-9]+)?$")
    raw = F.regexp_extract(text, finding(name), 1)
    written = (raw != "") & ~F.startswith(raw, F.lit('"'))
    anew = number | F.substring(value, 1, 1).isin("{", "[")
    return F.when(anew & written, raw).otherwise(value)


def kept_values(values: Mapping[str, str]) -> Column:
    """What is kept of a row of columns: the SQL of each value, by its name. Nulls are none."""
    if not values:
        return F.lit(None).cast("string")
    struct = F.struct(*(F.expr(sql).alias(name) for name, sql in values.items()))
    return F.nullif(F.to_json(struct, dict(_WRITTEN)), F.lit("{}"))


def as_json(sql: str) -> str:
    """A list or a map as JSON text, in SQL."""
    options = ", ".join(f'"{name}", "{value}"' for name, value in _WRITTEN.items())
    return f"to_json({sql}, map({options}))"


def plain(names: Mapping[str, str]) -> dict[str, str]:
    """The SQL of columns by the names that they are kept under."""
    return {name: quoted(column) for column, name in names.items()}
