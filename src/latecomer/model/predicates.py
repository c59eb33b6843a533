"""What a `where` may contain: an SQL condition over the source's columns, and nothing else.

Spark gets a `where` as text. Spark SQL can call Java methods, read files and read the clock. So the allowed words and
functions are listed here, and all others are refused: in a pipeline file, in Python, and in a store, which may come
from elsewhere. Every definition is checked here when it is loaded, before Spark starts.

The lexer follows Spark's and refuses what the two could read differently: comments, `$`. A name with dots, such as
`pricing.base`, is one column, and is put into backticks before Spark sees it, as is `Größe` (`with_names_quoted`).
After a bracket, as in `items[0].sku`, a dotted name is a field of the element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from latecomer.errors import did_you_mean
from latecomer.model.words import QUOTED, without_backticks, words


def _words(text: str) -> frozenset[str]:
    return frozenset(words(text))


_BY_RESULT = {
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
    "array<string>": "split json_object_keys",
    "": "abs array array_distinct array_except array_intersect array_max array_min array_union bround cast ceil "
    "ceiling coalesce convert_timezone date_part dateadd datepart decimal element_at extract floor get greatest if "
    "ifnull least map_keys map_values mod nanvl negative nullif nvl nvl2 pmod positive round shiftleft shiftright "
    "slice sort_array timestampadd to_number try_add try_cast try_divide try_element_at try_mod try_multiply "
    "try_subtract try_to_number",
}
"""The type of a result → the functions that have it, whatever their arguments; the last ones depend on them."""
FUNCTION_TYPES = {name: kind for kind, names in _BY_RESULT.items() for name in names.split()}
"""Function that may be called, also types and what stands after AS → the type of its result; empty where it depends on
the arguments. All are deterministic. Functions that make text of any length (`repeat`) are left out."""
FUNCTIONS = frozenset(FUNCTION_TYPES)

_KEYWORDS = _words(
    "and or not in like ilike rlike regexp between is null true false case when then else end as div "
    "distinct from for escape any all some both leading trailing "
    "interval year years month months week weeks day days hour hours minute minutes second seconds "
    "millisecond milliseconds microsecond microseconds to "
    "timestamp_ntz timestamp_ltz integer long short byte real dec numeric char varchar"
)
"""Words of a condition that are neither functions nor columns: operators, units of time, names of types."""

_TYPES = _words("bigint binary boolean date decimal double float int smallint string timestamp tinyint")
_NO_COLUMNS = _KEYWORDS | _TYPES
_MAY_OPEN = _KEYWORDS - {"null", "true", "false", "end"}
"""Keywords that a bracket may follow: `in (`, `and (`, `numeric(`."""

_QUERIES = _words("select with values table map reduce from")
"""Words with which a query begins."""

_REASONS = {
    word: reason
    for reason, forbidden in {
        "depends on the clock": "now current_date current_timestamp current_time curdate localtimestamp",
        "depends on chance": "rand random randn randstr uniform shuffle uuid monotonically_increasing_id",
        "depends on the session or the machine, not on the event": "user current_user session_user current_catalog "
        "current_database current_schema current_timezone version input_file_name input_file_block_start "
        "input_file_block_length spark_partition_id",
        "calls Java methods": "java_method reflect try_reflect",
        "reads files": "read_files from_avro to_avro from_protobuf xpath from_xml",
        "makes values of any length": "repeat space sequence array_repeat",
        "stops the pipeline": "raise_error assert_true",
    }.items()
    for word in forbidden.split()
}
"""Function that is not allowed → why."""
_WITHOUT_BRACKETS = _words(
    "current_date current_timestamp current_time localtimestamp user current_user session_user "
    "current_catalog current_database current_schema"
)
_FIX = (
    "write a condition with the functions that docs/conditions.md lists, or have it as a column of the source"
)

# ſ, ı, İ and K are letters that become ASCII when Spark changes their case.
_LEXED = re.compile(
    rf"""(?P<space>\s+)
    | (?P<comment>--|/\*)
    | (?P<other>->|=>|\|>)
    | (?P<text>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>{QUOTED})
    | (?P<number>(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?![\w.`]))
    | (?P<field>(?<=[\])])(?:\.[^\W\d\u017f\u0131\u0130\u212a](?:[^\W\u017f\u0131\u0130\u212a])*)+)
    | (?P<path>[^\W\d\u017f\u0131\u0130\u212a](?:[^\W\u017f\u0131\u0130\u212a])*
        (?:\.[^\W\d\u017f\u0131\u0130\u212a](?:[^\W\u017f\u0131\u0130\u212a])*)+)
    | (?P<word>(?:[^\W\u017f\u0131\u0130\u212a])+)
    | (?P<sign><=>|<=|>=|<>|!=|==|\|\||::|[-+*/%=<>&|^~!(),\[\]])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A word, number, text, name or sign of an expression."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """In lower case if it is a bare word, else nothing."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """What it names, without the backticks around it."""
        return without_backticks(self.text) if self.kind == "quoted" else self.text


_EDGE = Token("edge", "")


def check_where(written: str) -> None:
    """Refuse a `where` that is not just a condition over columns. The message has the reason, then the fix.

    >>> check_where("lower(status) in ('ok', 'done') and paise > 5")
    >>> check_where("reflect('java.lang.Runtime', 'getRuntime') is not null")
    Traceback (most recent call last):
    ValueError: reflect may not be called in a where: it calls Java methods; write a condition with the \
functions that docs/conditions.md lists, or have it as a column of the source
    """
    if not written.strip():
        raise ValueError("an empty predicate; write an SQL condition over the source's columns")
    _check(written, "where")


def with_names_quoted(written: str) -> str:
    """A condition with those names in backticks that Spark would not read as names: dotted ones, which it takes for
    fields of a column or a table, and those with letters beyond ASCII.

    >>> with_names_quoted("pricing.base > 1.5 and Größe > 2 and note != 'a.b ü'")
    "`pricing.base` > 1.5 and `Größe` > 2 and note != 'a.b ü'"
    """
    return "".join(
        f"`{token.text}`"
        if token.kind == "path" or (token.kind == "word" and not token.text.isascii())
        else token.text
        for token in _lexed(written)
    )


def check_fix(written: str, what: str = "fix") -> None:
    """Refuse an expression for a column that contains something that a `where` may not contain. The message calls the
    expression `what`.

    >>> check_fix("cast(replace(paise, ',', '') as bigint)")
    >>> check_fix("rand()")
    Traceback (most recent call last):
    ValueError: rand may not be called in a fix: it depends on chance; write it with the functions that \
docs/conditions.md lists
    """
    if not written.strip():
        raise ValueError("an empty expression; write SQL over the record's columns")
    _check(written, what)


def _check(written: str, what: str) -> None:
    if "${" in written:
        raise ValueError(
            "holds ${, with which Spark puts in settings and environment variables; write the value itself"
        )
    parts = tokens(written)
    _check_brackets(parts)
    for before, token, after in zip([_EDGE, *parts], parts, [*parts[1:], _EDGE], strict=False):
        _check_token(before, token, after, what)


def unknown_columns(written: str, columns: Iterable[str]) -> dict[str, str]:
    """The names in a condition that are not columns, with the fix for each.

    >>> unknown_columns("stats = 'OK' and paise > 0", ["status", "paise"])
    {'stats': 'did you mean status? there are status, paise'}
    """
    known = dict.fromkeys(columns)
    return {name: did_you_mean(name, known) for name in _names(written) if name not in known}


def named_columns(written: str, columns: Iterable[str]) -> list[str]:
    """The ones of these columns that an expression names, each once.

    >>> named_columns("rupees > 5 and hour(at) = 3", ["at", "rupees", "hour"])
    ['rupees', 'at']
    """
    known = set(columns)
    return list(dict.fromkeys(name for name in _names(written) if name in known))


def is_names_alone(written: str) -> bool:
    """Whether a text has only names in it: then it is a name that should be in backticks, and no expression.

    >>> is_names_alone("net amount"), is_names_alone("not paid"), is_names_alone("-")
    (True, False, False)
    """
    try:
        return len(tokens(written)) == len(list(_names(written))) > 0
    except ValueError:
        return False


def _names(written: str) -> Iterator[str]:
    for token, after in pairwise([*tokens(written), _EDGE]):
        is_word = token.word in _NO_COLUMNS or (token.word in FUNCTIONS and after.text == "(")
        if token.kind in ("word", "quoted", "path") and not is_word:
            yield token.name


def column_mistake(written: str, columns: Iterable[str]) -> str | None:
    """Why a condition does not fit these columns: the first name that is not a column, with the reason and the fix."""
    for name, fix in unknown_columns(written, columns).items():
        if name.lower() in _WITHOUT_BRACKETS:
            return f"{name} {_REASONS[name.lower()]}; {_FIX}"
        return f"the source has no column {name}; {fix}"
    return None


def tokens(written: str) -> list[Token]:
    return [token for token in _lexed(written) if token.kind != "space"]


def _lexed(written: str) -> Iterator[Token]:
    at = 0
    while at < len(written):
        match = _LEXED.match(written, at)
        if match is None or match.lastgroup == "other":
            raise ValueError(
                f"holds {written[at : at + 10]!r}, which a condition has no use for; compare columns and values, "
                "with names that are no plain words in backticks"
            )
        kind = match.lastgroup or ""
        if kind == "comment":
            raise ValueError("holds a comment; write it in the pipeline file, after #")
        yield Token(kind, match[0])
        at = match.end()


def _check_brackets(tokens: Iterable[Token]) -> None:
    """Refuse unmatched brackets and commas outside of brackets: the condition becomes part of a longer expression."""
    opened: list[str] = []
    pairs = {")": "(", "]": "["}
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in ("(", "["):
            opened.append(token.text)
        elif token.text in pairs and (not opened or opened.pop() != pairs[token.text]):
            raise ValueError(f"has a {token.text} too many; close each bracket that was opened")
        elif token.text == "," and not opened:
            raise ValueError("has a comma outside of brackets; join conditions with and, or")
    if opened:
        raise ValueError(f"has a {opened[-1]} that is not closed; close each bracket that was opened")


def _check_token(before: Token, token: Token, after: Token, what: str) -> None:
    called = after.text == "("
    word = token.word
    if token.kind in ("quoted", "text", "path", "field") and called:
        raise ValueError(f"calls {token.text}; write the bare name of a function")
    if word in _QUERIES and before.text in ("", "("):
        raise ValueError(
            f"holds {token.text} where a query begins; a condition looks at one event alone, and a column of that "
            "name is written in backticks"
        )
    if word and called and word not in FUNCTIONS and word not in _MAY_OPEN:
        reason = _REASONS.get(word)
        why = f": it {reason}" if reason else ": it is not on the list of functions"
        near = did_you_mean(word, sorted(FUNCTIONS)).partition("?")
        hint = f"{near[0]}? or " if near[1] and not reason else ""
        fix = _FIX if what == "where" else "write it with the functions that docs/conditions.md lists"
        raise ValueError(f"{token.text} may not be called in a {what}{why}; {hint}{fix}")
