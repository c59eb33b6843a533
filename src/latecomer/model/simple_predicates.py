"""Simple SQL predicates, evaluated without Spark, in three-valued logic.

Columns, numbers, text in single quotes, true, false and null; `= == != <> < <= > >= <=>`; `is [not]
null`, `is [not] true`, `[not] in (…)`, `[not] between`; and, or, not, brackets. Whatever else Spark
knows, and whatever it would have to convert between types, is refused: an answer is Spark's answer, or
there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from latecomer.errors import LatecomerError
from latecomer.model import types
from latecomer.model.clock import Predicate

Answer = bool | None
Value = Callable[[Mapping[str, Any]], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)(?![\w.])|'(?P<text>[^'\\]*)'(?!\s*')|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><=>|<=|>=|<>|!=|==|[=<>(),-]))"
)
_WORDS = frozenset(["and", "or", "not", "is", "in", "between", "null", "true", "false"])
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_SAME = {"==": "=", "<>": "!="}
NULL = "null"
_MOST_DIGITS = 18


class NeedsSpark(LatecomerError):
    """The predicate can only be evaluated by Spark."""


def predicate(written: str, columns: Mapping[str, str]) -> Predicate:
    """The predicate as a function of a row.

    >>> kept = predicate("status = 'OK' and paise > 5", {"status": "string", "paise": "bigint"})
    >>> kept({"status": "OK", "paise": 6}), kept({"status": "OK", "paise": None})
    (True, None)
    """
    return _Reader(written, columns).read()


class _Reader:
    """Reads a predicate by recursive descent. Every value comes with the family of its type."""

    def __init__(self, written: str, columns: Mapping[str, str]) -> None:
        self.written = written
        self.columns = columns
        self.tokens = list(self._split())
        self.at = 0

    def read(self) -> Predicate:
        whole = self._condition(self._either())
        if self.at < len(self.tokens):
            raise self._beyond(f"{self._peek()[1]} was not expected")
        return whole

    def _split(self) -> Sequence[tuple[str, str]]:
        found, start = [], 0
        while self.written[start:].strip():
            match = _TOKEN.match(self.written, start)
            if match is None:
                raise self._beyond(f"{self.written[start:].split()[0]} is beyond it")
            kind, text = next((name, value) for name, value in match.groupdict().items() if value is not None)
            if kind == "word" and text.lower() in _WORDS:
                kind, text = "keyword", text.lower()
            found.append((kind, text))
            start = match.end()
        return found

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ("end", "the end")

    def _take(self, *words: str) -> bool:
        """Go on if these come next."""
        if all(self._peek(ahead) in (("keyword", word), ("sign", word)) for ahead, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._beyond(f"{word} was expected, and {self._peek()[1]} stands there")

    # Conditions

    def _either(self) -> tuple[Value, str]:
        found = self._both()
        while self._take("or"):
            found = self._joined(found, self._both(), _either)
        return found

    def _both(self) -> tuple[Value, str]:
        found = self._negated()
        while self._take("and"):
            found = self._joined(found, self._negated(), _both)
        return found

    def _joined(
        self, one: tuple[Value, str], other: tuple[Value, str], rule: Callable[[Answer, Answer], Answer]
    ) -> tuple[Value, str]:
        first, second = self._condition(one), self._condition(other)
        return (lambda row: rule(first(row), second(row))), "boolean"

    def _negated(self) -> tuple[Value, str]:
        if not self._take("not"):
            return self._compared()
        inner = self._condition(self._negated())
        return (lambda row: _no(inner(row))), "boolean"

    def _compared(self) -> tuple[Value, str]:
        left = self._value()
        kind, sign = self._peek()
        if kind == "sign" and (sign == "<=>" or _SAME.get(sign, sign) in _SIGNS):
            self.at += 1
            right = self._value()
            return self._sign(sign, left, right), "boolean"
        if self._take("is"):
            return self._is(left), "boolean"
        negated = self._take("not")
        if self._take("in"):
            found = self._in(left)
        elif self._take("between"):
            low = self._value()
            self._expect("and")
            above, below = self._sign(">=", left, low), self._sign("<=", left, self._value())
            found = lambda row: _both(above(row), below(row))  # noqa: E731
        elif negated:
            raise self._beyond(f"{self._peek()[1]} was not expected after not")
        else:
            return left
        return (lambda row: _no(found(row))) if negated else found, "boolean"

    def _is(self, left: tuple[Value, str]) -> Value:
        negated = self._take("not")
        value = left[0]
        for word, wanted in (("null", None), ("true", True), ("false", False)):
            if self._take(word):
                if wanted is not None:
                    value = self._condition(left)
                return lambda row: (value(row) is wanted) is not negated
        raise self._beyond(f"{self._peek()[1]} was not expected after is")

    def _in(self, left: tuple[Value, str]) -> Value:
        self._expect("(")
        equal = [self._sign("=", left, self._value())]
        while self._take(","):
            equal.append(self._sign("=", left, self._value()))
        self._expect(")")

        def found(row: Mapping[str, Any]) -> Answer:
            answer: Answer = False
            for each in equal:
                answer = _either(answer, each(row))
            return answer

        return found

    def _sign(self, sign: str, left: tuple[Value, str], right: tuple[Value, str]) -> Value:
        families = {family for _, family in (left, right) if family != NULL}
        if not families <= {"number", "double"} and len(families) > 1:
            raise self._beyond(f"it compares {' with '.join(sorted(families))}")
        one, other = left[0], right[0]
        if families == {"number", "double"}:  # Spark compares them as doubles
            one, other = (_as_double(value) for value in (one, other))
        compare = _SIGNS.get(_SAME.get(sign, sign))

        def compared(row: Mapping[str, Any]) -> Answer:
            a, b = one(row), other(row)
            if compare is None:  # <=> takes null for a value like any other
                return (a is None and b is None) or (a is not None and b is not None and a == b)
            return None if a is None or b is None else compare(a, b)

        return compared

    # Values

    def _value(self) -> tuple[Value, str]:
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        minus = self._take("-")
        kind, text = self._peek()
        self.at += 1
        if kind == "number" and len(text) > _MOST_DIGITS:
            raise self._beyond(f"{text} has more than {_MOST_DIGITS} digits")
        if kind == "number":
            number = Decimal(f"-{text}" if minus else text)
            return (lambda _: number), "number"
        if minus:
            raise self._beyond("a minus stands before no number")
        if kind == "text":
            return (lambda _: text), "text"
        if kind == "keyword" and text in ("null", "true", "false"):
            constant = {"null": None, "true": True, "false": False}[text]
            return (lambda _: constant), NULL if text == "null" else "boolean"
        if kind in ("word", "quoted"):
            return self._column(text.replace("``", "`") if kind == "quoted" else text)
        raise self._beyond(f"{text} was not expected")

    def _column(self, name: str) -> tuple[Value, str]:
        kind = self.columns.get(name)
        if kind is None:
            raise self._beyond(f"the source has no column {name}")
        family = _family(kind)
        if family is None:
            raise self._beyond(f"{name} is {kind}")
        return (lambda row: row.get(name)), family

    def _condition(self, found: tuple[Value, str]) -> Value:
        if found[1] not in ("boolean", NULL):
            raise self._beyond(f"a {found[1]} stands where a condition should")
        return found[0]

    def _beyond(self, reason: str) -> NeedsSpark:
        return NeedsSpark(
            f"the predicate {self.written!r} is not one that can be evaluated without Spark: {reason}; "
            "run it on Spark"
        )


def _family(kind: str) -> str | None:
    if kind in types.INTEGERS or types.is_decimal(kind):
        return "number"
    return {"double": "double", "string": "text", "boolean": "boolean"}.get(kind)


def _as_double(value: Value) -> Value:
    def doubled(row: Mapping[str, Any]) -> float | None:
        found = value(row)
        return None if found is None else float(found)

    return doubled


def _no(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _both(one: Answer, other: Answer) -> Answer:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _either(one: Answer, other: Answer) -> Answer:
    return _no(_both(_no(one), _no(other)))
