"""The type of each function's result, as in Spark."""

from __future__ import annotations

ARRAY = "array<"

SAME_AS_FIRST = frozenset(["abs", "negative", "positive", "nullif", "mod", "pmod", "nanvl"])
SAME_ARRAY = frozenset(
    ["array_distinct", "array_except", "array_intersect", "array_union", "slice", "sort_array"]
)
COMMON = frozenset(["coalesce", "ifnull", "nvl", "greatest", "least"])
_FIXED = {
    "string": "base64 btrim char chr concat concat_ws decode format_number hex initcap lcase left lower lpad ltrim "
    "mask md5 overlay printf regexp_extract regexp_replace regexp_substr replace reverse right rpad rtrim sha sha1 "
    "sha2 soundex split_part substr substring substring_index translate trim ucase upper url_decode url_encode "
    "get_json_object date_format dayname monthname from_unixtime to_char to_varchar typeof to_json array_join string",
    "int": "ascii bit_length char_length character_length find_in_set instr len length levenshtein locate octet_length "
    "position regexp_count regexp_instr hash json_array_length array_size cardinality size bit_count "
    "date_diff datediff day dayofmonth dayofweek dayofyear hour minute month quarter second unix_date weekday "
    "weekofyear year int",
    "bigint": "crc32 xxhash64 array_position unix_micros unix_millis unix_seconds unix_timestamp to_unix_timestamp "
    "width_bucket timestampdiff bigint",
    "double": "cbrt cos sin tan acos asin atan atan2 degrees exp ln log log10 log2 pow power radians rint sign signum "
    "sqrt months_between double",
    "boolean": "contains endswith startswith equal_null isnan isnotnull isnull like ilike rlike regexp regexp_like "
    "array_contains arrays_overlap map_contains_key is_valid_utf8 boolean",
    "date": "add_months date date_add date_from_unix_date date_sub last_day make_date next_day to_date trunc "
    "try_to_date",
    "timestamp": "date_trunc from_utc_timestamp make_timestamp timestamp timestamp_micros timestamp_millis "
    "timestamp_seconds to_timestamp to_utc_timestamp try_to_timestamp",
    "binary": "encode unbase64 unhex binary",
    "tinyint": "bit_get getbit tinyint",
    "smallint": "smallint",
    "float": "float",
    f"{ARRAY}string>": "split json_object_keys",
}
FUNCTION_TYPES = {name: kind for kind, names in _FIXED.items() for name in names.split()}
"""Functions whose result has one type, whatever their arguments."""

UNITS = frozenset(["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"])
IRREGULAR = {
    "extract": "int",
    "date_part": "int",
    "datepart": "int",
    "dateadd": "timestamp",
    "timestampadd": "timestamp",
}
"""Functions whose arguments are not only expressions."""
TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/"}
