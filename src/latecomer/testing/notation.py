"""One line for each thing: a row that arrives, a pane, a late row, a line of the ledger, a result.

    14:00:10 @14:00:12 tower=A paise=100 -> late_accepted
    14:00..14:01 tower=A LATE sequence=1 paise=150 last
    14:00:10 @14:02:30 paise=5 14:00..14:01 too_late
    events received=3 on_time=2 late_accepted=1
    14:00..14:01 tower=A paise=150

The lists of top_k and collect are written `routes=[DEL:2,BOM:1]` and `seen=[A,B,C]`, if their values have no
space, quote, comma or colon; else as JSON text in quotes.

Each kind has a reader, which says what is wrong with a line, and a writer. What a line leaves out is not
compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from latecomer.config.outputs import Output
from latecomer.errors import did_you_mean
from latecomer.model.durations import to_micros
from latecomer.model.json_text import short_form
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry
from latecomer.model.panes import Op, Pane, Timing
from latecomer.model.verdicts import Fate, Verdict
from latecomer.model.windows import Window
from latecomer.testing.rows import Plain, Row
from latecomer.testing.times import Times

_TOKEN = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
_FIELD = re.compile(r'([^\s"=]+)=(.*)', re.DOTALL)
REASONS = (
    "no_event_time",
    "unreadable",
    "unreadable_event_time",
    "unreadable_arrival_time",
    "too_far_ahead",
)
FATE_WORDS = frozenset({*(fate.value for fate in Fate), *(verdict.value for verdict in Verdict), *REASONS})
NOTHING = "(nothing)"


def _tokens(line: str) -> tuple[list[str], dict[str, Any]]:
    """The bare words of a line, and its `name=value` pairs."""
    words: list[str] = []
    fields: dict[str, Any] = {}
    if line.count('"') - line.count('\\"') & 1:
        raise ValueError('a quote is not closed; write name="two words"')
    for token in _TOKEN.findall(line):
        field = _FIELD.fullmatch(token)
        if field is None:
            words.append(token)
        elif field[1] in fields:
            raise ValueError(f"{field[1]} is written twice; keep one of the two")
        else:
            fields[field[1]] = _value(field[2])
    return words, fields


def _value(written: str) -> Any:
    if written == "null":
        return None
    if len(written) > 1 and written[0] == written[-1] == '"':
        return re.sub(r"\\(.)", r"\1", written[1:-1])
    return Plain(written)


def same_value(stated: Any, actual: Any, times: Times) -> bool:
    """Whether a value is the one that is written."""
    if stated is None or actual is None:
        return stated is None and actual is None
    try:
        if isinstance(actual, bool):
            return str(stated).lower() == str(actual).lower()
        if isinstance(actual, float):
            return math.isclose(float(stated), actual, rel_tol=1e-9, abs_tol=1e-12)
        if isinstance(actual, int | Decimal):
            return Decimal(str(stated)) == actual
        if isinstance(actual, datetime):
            return times.read(str(stated)) == to_micros(actual)
        if isinstance(actual, bytes):
            return str(stated).encode() == actual
        if isinstance(actual, str) and isinstance(stated, Plain) and stated.startswith("["):
            return str(stated) in (actual, short_form(actual))
        return str(stated) == (actual.isoformat() if isinstance(actual, date) else actual)
    except (ValueError, InvalidOperation):
        return False


def write_value(value: Any, times: Times) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return times.write(to_micros(value))
    if isinstance(value, Decimal):
        written = f"{value:f}"
        return written.rstrip("0").rstrip(".") if "." in written else written
    if isinstance(value, float):
        return f"{value:.12g}"
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    text = short_form(text) or text
    plain = bool(re.fullmatch(r'[^\s"=]+', text)) and text != "null"
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_fields(fields: Mapping[str, Any], times: Times) -> str:
    return " ".join(f"{name}={write_value(value, times)}" for name, value in fields.items())


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# Rows


def read_row(line: str, times: Times) -> Row:
    """`14:00:10 @14:00:12 tower=A`: event time, arrival time, columns.

    `none` stands for a missing event time; text in quotes goes into the column as it is.
    """
    words, fields = _tokens(line)
    if len(words) != 2 or not words[1].startswith("@"):
        raise ValueError("not a row; write 14:00:10 @14:00:12 and then column=value")
    happened: int | str | None = None
    if words[0] != "none":
        happened = _value(words[0]) if words[0].startswith('"') else times.read(words[0])
    return Row(happened, times.read(words[1][1:]), fields)


def write_row(row: Row, times: Times) -> str:
    happened, written = row.event_time, "none"
    if happened is not None:
        written = times.write(happened) if isinstance(happened, int) else f'"{happened}"'
    return _joined(written, f"@{times.write(row.arrival_time)}", write_fields(row.fields, times))


def read_fates(written: str) -> tuple[tuple[str, ...], ...]:
    """`late_accepted`; `dropped, on_time` for two windows; `too_late side_output` for both words of one."""
    stated = tuple(tuple(part.split()) for part in written.split(","))
    for word in (word for words in stated for word in words):
        if word not in FATE_WORDS:
            raise ValueError(f"{word} is not a fate; there are {', '.join(sorted(FATE_WORDS))}")
    if not all(stated):
        raise ValueError("a fate is missing; write one for each window")
    return stated


@dataclass(frozen=True)
class Line:
    """What is stated in a line; by itself, the line as a whole."""

    line: str


# Panes and results


@dataclass(frozen=True)
class StatedPane(Line):
    """A pane, as far as a line describes it."""

    window: Window
    fields: Mapping[str, Any]
    timing: Timing | None = None
    op: Op = Op.INSERT
    sequence: int | None = None
    last: bool | None = None

    def names(self, pane: Pane, by: Sequence[str], times: Times) -> bool:
        """Whether this is the pane that the line states."""
        actual = {**dict(zip(by, pane.key, strict=True)), **pane.values}
        return (
            self.window == (pane.window_start, pane.window_end)
            and self.timing in (None, pane.timing)
            and self.op is pane.op
            and self.sequence in (None, pane.sequence)
            and self.last in (None, pane.is_last)
            and all(name in actual and same_value(v, actual[name], times) for name, v in self.fields.items())
        )


def unknown_name(stated: Any, output: Output, columns: Iterable[str], measures: Sequence[str]) -> str | None:
    """An unknown name in a line, and the fix: such a line could never hold."""
    match stated:
        case StatedPane():
            names, known, what = list(stated.fields), [*output.by, *output.aggregates], "the output"
        case StatedLate():
            names, known, what = list(stated.row.fields), list(columns), "the source"
        case StatedEntry():
            names, known, what = [stated.unit], [EVENTS, ASSIGNMENTS, *measures], "the ledger"
        case _:
            return None
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return None
    kind = "unit" if isinstance(stated, StatedEntry) else "column"
    return f"{unknown}: {what} has no such {kind}; {did_you_mean(unknown, known)}"


def read_pane(line: str, times: Times) -> StatedPane:
    """`14:00..14:01 tower=A LATE sequence=1 paise=150 last`, with `retract` for one that takes a pane back."""
    words, fields = _tokens(line)
    if not words:
        raise ValueError("not a pane; write 14:00..14:01 ON_TIME and then column=value")
    known: dict[str, Any] = {}
    if "sequence" in fields:
        sequence = str(fields.pop("sequence"))
        if not re.fullmatch(r"\d+", sequence):
            raise ValueError("a sequence is a whole number; write sequence=0")
        known["sequence"] = int(sequence)
    for word in words[1:]:
        value: object
        if word in Timing.__members__:
            key, value = "timing", Timing(word)
        elif word in ("retract", "insert"):
            key, value = "op", Op(word)
        elif word in ("last", "more"):
            key, value = "last", word == "last"
        else:
            raise ValueError(
                f"{word} is not a word for a pane; there are EARLY, ON_TIME, LATE, CLOSING, retract, last and more"
            )
        if key in known:
            raise ValueError(f"{word}: a pane has one {key}; keep one")
        known[key] = value
    return StatedPane(line, times.read_window(words[0]), fields, **known)


def write_pane(pane: Pane, by: Sequence[str], times: Times) -> str:
    return _joined(
        times.write_window(Window(pane.window_start, pane.window_end)),
        write_fields(dict(zip(by, pane.key, strict=True)), times),
        pane.timing.value,
        "retract" if pane.op is Op.RETRACT else "",
        f"sequence={pane.sequence}",
        write_fields(pane.values, times),
        "last" if pane.is_last else "",
    )


def read_result(line: str, times: Times) -> StatedPane:
    """`14:00..14:01 tower=A paise=150`."""
    words, fields = _tokens(line)
    if len(words) != 1:
        raise ValueError("not a result; write 14:00..14:01 and then column=value")
    return StatedPane(line, times.read_window(words[0]), fields)


def write_result(pane: Pane, by: Sequence[str], times: Times) -> str:
    return write_pane(pane, by, times).replace(" ON_TIME sequence=0", "", 1)


# The side output


@dataclass(frozen=True)
class Late:
    """A row in the side output of an output: what it was late for, and how late."""

    row: Row
    window: Window
    verdict: Verdict
    watermark: int


@dataclass(frozen=True)
class StatedLate(Line):
    """A late row, as far as a line describes it."""

    row: Row
    window: Window | None = None
    verdict: Verdict | None = None

    def names(self, late: Late, _by: Sequence[str], _times: Times) -> bool:
        actual = late.row.fields
        return (
            (self.row.event_time, self.row.arrival_time) == (late.row.event_time, late.row.arrival_time)
            and all(str(actual.get(name)) == str(value) for name, value in self.row.fields.items())
            and self.window in (None, late.window)
            and self.verdict in (None, late.verdict)
        )


def read_late(line: str, times: Times) -> StatedLate:
    """`14:00:10 @14:02:30 paise=5 14:00..14:01 too_late`."""
    words, _ = _tokens(line)
    window = verdict = None
    for word in words[2:]:
        if ".." in word or word == "always":
            window = times.read_window(word)
        elif word in (Verdict.LATE, Verdict.TOO_LATE):
            verdict = Verdict(word)
        else:
            raise ValueError(f"{word} is not a word for a late row; there are late, too_late and a window")
    rest = _TOKEN.findall(line)
    kept = [token for token in rest if _FIELD.fullmatch(token) or token in words[:2]]
    return StatedLate(line, read_row(" ".join(kept), times), window, verdict)


def write_late(late: Late, _by: Sequence[str], times: Times) -> str:
    return _joined(write_row(late.row, times), times.write_window(late.window), late.verdict.value)


# The ledger


@dataclass(frozen=True)
class StatedEntry(Line):
    """A line of the ledger. A fate that it leaves out is zero."""

    unit: str
    amounts: Mapping[str, Decimal]

    def names(self, entry: Entry, _by: Sequence[str], _times: Times) -> bool:
        actual = amounts_of(entry)
        fates = [fate.value for fate in Fate]
        stated = {**dict.fromkeys(fates, Decimal(0)), **self.amounts}
        return self.unit == entry.unit and all(actual[name] == amount for name, amount in stated.items())


_COUNTED = ("received", *(fate.value for fate in Fate), "partly_late", "late_at_source")


def read_entry(line: str, _times: Times) -> StatedEntry:
    """`events received=3 on_time=2 late_accepted=1`; the unit may be assignments or a measure."""
    words, fields = _tokens(line)
    if len(words) != 1:
        raise ValueError("not a line of the ledger; write events received=3 on_time=3")
    if unknown := [name for name in fields if name not in _COUNTED]:
        raise ValueError(f"the ledger does not count {unknown[0]}; there are {', '.join(_COUNTED)}")
    try:
        return StatedEntry(line, words[0], {name: Decimal(str(value)) for name, value in fields.items()})
    except InvalidOperation:
        raise ValueError("the ledger counts in numbers; write on_time=3") from None


def amounts_of(entry: Entry) -> dict[str, Decimal]:
    return {
        "received": entry.received,
        **{fate.value: entry.fates.get(fate, Decimal(0)) for fate in Fate},
        "partly_late": Decimal(entry.partly_late),
        "late_at_source": Decimal(entry.late_at_source),
    }


def write_entry(entry: Entry, _by: Sequence[str], times: Times) -> str:
    amounts = {name: amount for name, amount in amounts_of(entry).items() if amount or name == "received"}
    return _joined(entry.unit, write_fields(amounts, times))


LISTS: dict[str, tuple[Callable[[str, Times], Any], Callable[[Any, Sequence[str], Times], str]]] = {
    "panes": (read_pane, write_pane),
    "late": (read_late, write_late),
    "ledger": (read_entry, write_entry),
    "results": (read_result, write_result),
}
"""What is expected line by line, and the reader and the writer of such a line."""
