"""The types and values of expressions, beside those that Spark gives them."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.model.expressions import Failed, expression
from latecomer.model.expressions.functions import FUNCTION_TYPES
from latecomer.spark.session import own_session
from latecomer.spark.value_or_null import value_or_null

CALLS = [
    "ascii(s)",
    "bit_length(s)",
    "char_length(s)",
    "character_length(s)",
    "find_in_set('a',s)",
    "instr(s,'a')",
    "len(s)",
    "length(s)",
    "levenshtein(s,'a')",
    "locate('a',s)",
    "octet_length(s)",
    "position('a',s)",
    "regexp_count(s,'a')",
    "regexp_instr(s,'a')",
    "hash(s)",
    "json_array_length(s)",
    "array_size(split(s,','))",
    "cardinality(split(s,','))",
    "size(split(s,','))",
    "bit_count(n)",
    "date_diff(day,day)",
    "datediff(day,day)",
    "day(at)",
    "dayofmonth(at)",
    "dayofweek(at)",
    "dayofyear(at)",
    "hour(at)",
    "minute(at)",
    "month(at)",
    "quarter(at)",
    "second(at)",
    "unix_date(day)",
    "weekday(at)",
    "weekofyear(at)",
    "year(at)",
    "int(s)",
    "base64(encode(s,'utf-8'))",
    "btrim(s)",
    "char(i)",
    "chr(i)",
    "concat(s,s)",
    "concat_ws('-',s,s)",
    "decode(encode(s,'utf-8'),'utf-8')",
    "format_number(x,2)",
    "hex(n)",
    "initcap(s)",
    "lcase(s)",
    "left(s,1)",
    "lower(s)",
    "lpad(s,5,'x')",
    "ltrim(s)",
    "mask(s)",
    "md5(encode(s,'utf-8'))",
    "overlay(s,'x',1)",
    "printf('%s',s)",
    "regexp_extract(s,'(a)')",
    "regexp_replace(s,'a','b')",
    "regexp_substr(s,'a')",
    "replace(s,'a','b')",
    "reverse(s)",
    "right(s,1)",
    "rpad(s,5,'x')",
    "rtrim(s)",
    "sha(encode(s,'utf-8'))",
    "sha1(encode(s,'utf-8'))",
    "sha2(encode(s,'utf-8'),256)",
    "soundex(s)",
    "split_part(s,',',1)",
    "substr(s,1)",
    "substring(s,1,2)",
    "substring_index(s,'.',1)",
    "translate(s,'a','b')",
    "trim(s)",
    "ucase(s)",
    "upper(s)",
    "url_decode(s)",
    "url_encode(s)",
    "get_json_object(s,'$.a')",
    "date_format(at,'yyyy')",
    "dayname(at)",
    "monthname(at)",
    "from_unixtime(n)",
    "to_char(n,'999')",
    "to_varchar(n,'999')",
    "typeof(n)",
    "string(n)",
    "crc32(encode(s,'utf-8'))",
    "xxhash64(s)",
    "array_position(split(s,','),'a')",
    "unix_micros(at)",
    "unix_millis(at)",
    "unix_seconds(at)",
    "unix_timestamp(at)",
    "to_unix_timestamp(at)",
    "width_bucket(x,0,10,5)",
    "timestampdiff(DAY,at,at)",
    "bigint(s)",
    "cbrt(x)",
    "cos(x)",
    "sin(x)",
    "tan(x)",
    "acos(x)",
    "asin(x)",
    "atan(x)",
    "atan2(x,x)",
    "degrees(x)",
    "exp(x)",
    "ln(x)",
    "log(x)",
    "log10(x)",
    "log2(x)",
    "pow(x,2)",
    "power(x,2)",
    "radians(x)",
    "rint(x)",
    "sign(x)",
    "signum(x)",
    "sqrt(x)",
    "months_between(at,at)",
    "double(s)",
    "contains(s,'a')",
    "endswith(s,'a')",
    "startswith(s,'a')",
    "equal_null(s,s)",
    "isnan(x)",
    "isnotnull(s)",
    "isnull(s)",
    "like(s,'a')",
    "ilike(s,'a')",
    "rlike(s,'a')",
    "regexp(s,'a')",
    "regexp_like(s,'a')",
    "array_contains(split(s,','),'a')",
    "arrays_overlap(tags,tags)",
    "map_contains_key(attrs,'k')",
    "to_json(items)",
    "array_join(tags,',')",
    "is_valid_utf8(s)",
    "boolean(s)",
    "add_months(day,1)",
    "date(at)",
    "date_add(day,1)",
    "date_from_unix_date(i)",
    "date_sub(day,1)",
    "last_day(day)",
    "make_date(i,i,i)",
    "next_day(day,'MON')",
    "to_date(s)",
    "trunc(day,'MM')",
    "try_to_date(s)",
    "date_trunc('hour',at)",
    "from_utc_timestamp(at,'UTC')",
    "make_timestamp(i,i,i,i,i,1.5)",
    "timestamp(s)",
    "timestamp_micros(n)",
    "timestamp_millis(n)",
    "timestamp_seconds(n)",
    "to_timestamp(s)",
    "to_utc_timestamp(at,'UTC')",
    "try_to_timestamp(s)",
    "encode(s,'utf-8')",
    "unbase64(s)",
    "unhex(s)",
    "binary(s)",
    "bit_get(n,1)",
    "getbit(n,1)",
    "tinyint(s)",
    "smallint(s)",
    "float(s)",
]
MORE = [
    *(
        "n / 100",
        "n + i",
        "i * i",
        "i + 1",
        "n % 2",
        "n div 2",
        "-x",
        "x * 2",
        "n & 3",
        "f + 1",
        "f * f",
        "i / 2",
    ),
    *(
        "s || '!'",
        "n > 3 and ok",
        "case when n > 3 then 'many' else 'few' end",
        "if(ok, n, i)",
        "coalesce(x, n)",
    ),
    *(
        "nullif(s, '')",
        "cast(n as decimal(20, 2))",
        "cast(price * 100 as bigint)",
        "s::int",
        "at + interval 1 day",
    ),
    *(
        "day + 1",
        "split(s, ',')[0]",
        "extract(hour from at)",
        "round(x, 2)",
        "round(i)",
        "floor(x)",
        "ceil(x)",
    ),
    *(
        "try_divide(n, i)",
        "try_add(n, i)",
        "abs(i)",
        "pmod(n, 10)",
        "mod(n, i)",
        "greatest(n, i)",
        "least(x, n)",
    ),
    *(
        "tags[0]",
        "attrs['k']",
        "items[0].sku",
        "element_at(items, -1).price",
        "get(tags, 1)",
        "array_max(map_values(attrs))",
        "element_at(map_keys(attrs), 1)",
        "sort_array(array_distinct(tags))[0]",
        "size(array_except(tags, array('a')))",
        "array_union(tags, tags)[0]",
        "array_intersect(tags, slice(tags, 1, 2))[0]",
        "array_min(tags)",
        "to_json(attrs)",
    ),
    *("1e3", "99999999999", "1.5", "shiftleft(i, 1)", "shiftright(n, 1)", "bround(x, 1)", "nvl(n, i)", "~i"),
]
COLUMNS = {
    "n": "bigint",
    "i": "int",
    "x": "double",
    "f": "float",
    "s": "string",
    "ok": "boolean",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(10,2)",
    "tags": "array<string>",
    "attrs": "map<string,bigint>",
    "items": "array<struct<sku:string,price:decimal(9,2)>>",
}
WIDER = {"json_object_keys", "split"}
"""Lists, which are no type of a column."""


def test_types_are_those_that_spark_gives(spark: SparkSession) -> None:
    rows = (
        own_session(spark)
        .range(1)
        .select(*(F.lit(None).cast(kind).alias(name) for name, kind in COLUMNS.items()))
    )
    differ = {}
    for written in [*CALLS, *MORE]:
        ours, theirs = expression(written, COLUMNS).kind, rows.selectExpr(f"({written}) as c").dtypes[0][1]
        if ours != theirs:
            differ[written] = (ours, theirs)
    assert differ == {}
    called = {call.partition("(")[0] for call in CALLS}
    assert called == {name for name, kind in FUNCTION_TYPES.items() if kind} - WIDER


def test_simple_values_are_those_that_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Each row through each expression: by Python, and by Spark; both fail for the same rows."""
    largest = (1 << 63) - 1
    rows = [
        {"n": n, "i": i, "x": x, "s": s, "ok": ok}
        for n, i in (
            (7, 3),
            (0, 0),
            (-1, 2147483647),
            (largest, -2147483648),
            (None, 5),
            (-largest - 1, None),
        )
        for x, s, ok in ((2.5, "abc", True), (-0.0, "", False), (None, None, None), (1e308, "é", None))
    ]
    written = [
        *(
            "n / i",
            "n + i",
            "n - i",
            "n * i",
            "i + i",
            "i * i",
            "-n",
            "-i",
            "x + n",
            "x * x",
            "x - x",
            "x / n",
        ),
        *(
            "s || s",
            "concat(s, cast(n as string))",
            "n > i",
            "n = i",
            "n != i",
            "n <= 3",
            "s = 'abc'",
            "s < 'b'",
        ),
        *(
            "ok and n > 3",
            "ok or n * 9223372036854775807 > 1",
            "not ok",
            "n > 3 and n + 9223372036854775807 > 1",
            "s is null",
            "ok is true",
        ),
        *(
            "case when n > 3 then i else 0 end",
            "case i when 3 then 'three' when 0 then s end",
            "if(ok, n, i)",
        ),
        *(
            "coalesce(n, i)",
            "coalesce(n + 1, 0)",
            "cast(n as int)",
            "cast(i as bigint) * i",
            "cast(n as double)",
        ),
    ]
    kinds = {name: COLUMNS[name] for name in ("n", "i", "x", "s", "ok")}
    folder = tmp_path / "rows"
    own = own_session(spark)
    text = tmp_path / "rows.json"
    text.write_text("".join(json.dumps({**row, "r": nth}) + "\n" for nth, row in enumerate(rows)))
    schema = ", ".join(f"{name} {kind}" for name, kind in {**kinds, "r": "bigint"}.items())
    own.read.schema(schema).json(str(text)).write.parquet(str(folder))
    made = {f"c{nth}": expression(each, kinds) for nth, each in enumerate(written)}
    frame = own.read.parquet(str(folder)).select(
        "r",
        *(
            value_or_null(own, each, made[f"c{nth}"].kind, "r").alias(f"c{nth}")
            for nth, each in enumerate(written)
        ),
    )
    for found in frame.collect():
        for nth, each in enumerate(written):
            try:
                ours = (made[f"c{nth}"].computed(rows[found["r"]]),)
            except Failed:
                ours = None
            assert ours == found[f"c{nth}"], (each, rows[found["r"]])
