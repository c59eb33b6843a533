"""Regular expressions as ECMA-262 has them, run in time that grows with text and pattern alone.

A pattern becomes a list of states. A set of states goes over the text once, so no pattern can try for ever, as
Python's `re` does for `(a+)+$`. What such a set cannot do is not run: look-around and back references.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

MOST_STATES = 2000
LONGEST_PATTERN = 10_000
_DEEPEST_GROUP = 30
_LINE_ENDS = "\n\r\u2028\u2029"
_SPACES = "\t\v\f\ufeff" + _LINE_ENDS
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_CATEGORIES = {
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
    *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp"),
    *("C", "Cc", "Cf", "Co"),
}
_NAMES = {
    "Letter": "L",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Number": "N",
    "Punctuation": "P",
}

Letter = Callable[[str], bool]
Spend = Callable[[int], None]


class NoPattern(ValueError):
    """The text is no regular expression."""


class NotRun(ValueError):
    """The text may be a regular expression, and holds what is not run here."""


# What a pattern is made of


@dataclass(frozen=True)
class _One:
    fits: Letter


@dataclass(frozen=True)
class _Place:
    """A place between two letters: ^, $, b or B."""

    kind: str


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Choice:
    ways: tuple[_Part, ...]


@dataclass(frozen=True)
class _Repeat:
    part: _Part
    least: int
    most: int | None


_Part = _One | _Place | _Sequence | _Choice | _Repeat


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> _Part:
        found = self._choice(0)
        if self.at < len(self.text):
            self._refuse("a ) closes nothing")
        return found

    def _refuse(self, why: str) -> NoReturn:
        raise NoPattern(f"{why}, at character {self.at + 1}")

    def _next(self) -> str:
        """The letter that comes next; none at the end."""
        return self.text[self.at : self.at + 1]

    def _take(self, expected: str) -> bool:
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) if found else 0
        return found

    def _letter(self) -> str:
        if not (found := self._next()):
            self._refuse("it ends too soon")
        self.at += 1
        return found

    def _choice(self, depth: int) -> _Part:
        if depth > _DEEPEST_GROUP:
            raise NotRun(f"more than {_DEEPEST_GROUP} groups within each other")
        ways = [self._sequence(depth)]
        while self._take("|"):
            ways.append(self._sequence(depth))
        return ways[0] if len(ways) == 1 else _Choice(tuple(ways))

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            part = self._single(depth)
            repeat = self._repeat()
            if repeat is not None and isinstance(part, _Place):
                self._refuse("a place cannot be repeated")
            parts.append(part if repeat is None else _Repeat(part, *repeat))
        return _Sequence(tuple(parts))

    def _repeat(self) -> tuple[int, int | None] | None:
        match self._next():
            case "*":
                found: tuple[int, int | None] = (0, None)
            case "+":
                found = (1, None)
            case "?":
                found = (0, 1)
            case "{":
                return self._counted()
            case _:
                return None
        self.at += 1
        self._take("?")
        return found

    def _counted(self) -> tuple[int, int | None] | None:
        """{2}, {2,} or {2,5}; another { is a letter."""
        end = self.text.find("}", self.at)
        inner = self.text[self.at + 1 : end] if 0 <= end - self.at < 20 else ""
        least, comma, most = inner.partition(",")
        if not (least.isascii() and least.isdigit()) or not (
            most == "" or (most.isascii() and most.isdigit())
        ):
            return None
        self.at = end + 1
        found = (int(least), int(most) if most else None if comma else int(least))
        if found[1] is not None and found[1] < found[0]:
            self._refuse("a repetition ends before it begins")
        self._take("?")
        return found

    def _single(self, depth: int) -> _Part:
        letter = self._letter()
        match letter:
            case "^" | "$":
                return _Place(letter)
            case ".":
                return _One(lambda each: each not in _LINE_ENDS)
            case "(":
                return self._group(depth)
            case "[":
                return _One(self._class())
            case "\\":
                if self._next() and self._next() in "bB":
                    return _Place(self._letter())
                return _One(self._escape(in_class=False)[1])
            case "*" | "+" | "?":
                self._refuse(f"a {letter} repeats nothing")
            case "{" if self._back_to_counted():
                self._refuse("a { repeats nothing")
        return _One(_equals(letter))

    def _back_to_counted(self) -> bool:
        start = self.at
        self.at -= 1
        counted = self._counted() is not None
        self.at = start
        return counted

    def _group(self, depth: int) -> _Part:
        if self._take("?"):
            if self._take("<") and self._next() not in ("=", "!", ""):
                end = self.text.find(">", self.at)
                if end < 0 or not self.text[self.at : end].isidentifier():
                    self._refuse("a group has no name")
                self.at = end + 1
            elif not self._take(":"):
                raise NotRun("look-around or flags, (?…)")
        found = self._choice(depth + 1)
        if not self._take(")"):
            self._refuse("a ( is not closed")
        return found

    def _class(self) -> Letter:
        negated = self._take("^")
        tests: list[Letter] = []
        while not self._take("]"):
            if not self._next():
                self._refuse("a [ is not closed")
            if self.text.startswith("&&", self.at):
                raise NotRun("&& within [ ], which has two meanings")
            first, test = self._class_letter()
            is_range = self._next() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", "")
            if first is None or not is_range:
                tests.append(test)
                continue
            self.at += 1
            last, after = self._class_letter()
            if last is None:
                tests += [test, _equals("-"), after]
            elif last < first:
                self._refuse("a range ends before it begins")
            else:
                tests.append(_between(first, last))
        return _some(tuple(tests), negated)

    def _class_letter(self) -> tuple[str | None, Letter]:
        """A letter within [ ], or None and what it stands for."""
        letter = self._letter()
        return self._escape(in_class=True) if letter == "\\" else (letter, _equals(letter))

    def _escape(self, *, in_class: bool) -> tuple[str | None, Letter]:
        kind = self._letter()
        if kind in "dDwWsS":
            test = {"d": _is_digit, "w": _is_word, "s": _is_space}[kind.lower()]
            return None, test if kind.islower() else _some((test,), True)
        if kind in "pP":
            return None, self._category(kind == "P")
        if in_class and kind in "b-":
            letter = "\b" if kind == "b" else "-"
        elif kind in _CONTROLS and not (kind == "0" and self._next().isdigit()):
            letter = _CONTROLS[kind]
        elif kind in "xuc":
            letter = self._code(kind)
        elif kind.isalnum() and kind.isascii():
            raise NotRun(f"\\{kind}, which is a back reference or of another language")
        else:
            letter = kind
        return letter, _equals(letter)

    def _code(self, kind: str) -> str:
        if kind == "c":
            letter = self._letter()
            if not (letter.isascii() and letter.isalpha()):
                self._refuse("\\c needs a letter")
            return chr(ord(letter) % 32)
        if kind == "u" and self._take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at : end] if end >= 0 else ""
            self.at = end + 1
        else:
            size = 2 if kind == "x" else 4
            digits = self.text[self.at : self.at + size].ljust(size)
            self.at += size
        if not digits or len(digits) > 6 or not all(each in "0123456789abcdefABCDEF" for each in digits):
            self._refuse(f"\\{kind} needs hexadecimal digits")
        code = int(digits, 16)
        if code > 0x10FFFF:
            self._refuse("there is no such character")
        if 0xD800 <= code < 0xE000:
            raise NotRun("half of a surrogate pair")
        return chr(code)

    def _category(self, negated: bool) -> Letter:
        end = self.text.find("}", self.at)
        name = self.text[self.at + 1 : end] if self._next() == "{" and end >= 0 else ""
        category = _NAMES.get(name, name)
        if category not in _CATEGORIES:
            raise NotRun(f"\\p{{{name[:20]}}}")
        self.at = end + 1
        return _some((lambda letter: unicodedata.category(letter).startswith(category),), negated)


def _equals(letter: str) -> Letter:
    return lambda each: each == letter


def _between(first: str, last: str) -> Letter:
    return lambda each: first <= each <= last


def _some(tests: tuple[Letter, ...], negated: bool) -> Letter:
    return lambda each: any(test(each) for test in tests) != negated


def _is_digit(letter: str) -> bool:
    return "0" <= letter <= "9"


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


def _is_space(letter: str) -> bool:
    return letter in _SPACES or unicodedata.category(letter) == "Zs"


# How it is run


@dataclass
class _State:
    """Takes a letter, or stands at a place, or leads on without either."""

    fits: Letter | None = None
    place: str = ""
    ways: tuple[int, ...] = ()


class Pattern:
    """A pattern that can be looked for in texts."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATTERN:
            raise NotRun(f"more than {LONGEST_PATTERN} characters")
        self.text = text
        self.states: list[_State] = [_State()]  # the end
        self.start = self._lead(_Reader(text).whole(), 0)

    def found_in(self, text: str, spend: Spend = lambda _: None) -> bool:
        """Whether the pattern fits some part of a text."""
        now: set[int] = set()
        for at in range(len(text) + 1):
            now.add(self.start)
            reached = self._reached(now, text, at)
            spend(len(reached) + 1)
            if 0 in reached:
                return True
            if at < len(text):
                letter = text[at]
                now = {
                    way
                    for each in reached
                    if (fits := self.states[each].fits) is not None and fits(letter)
                    for way in self.states[each].ways
                }
        return False

    def _reached(self, now: set[int], text: str, at: int) -> set[int]:
        found, left = set(now), list(now)
        while left:
            state = self.states[left.pop()]
            if state.fits is None and (not state.place or _holds(state.place, text, at)):
                fresh = [way for way in state.ways if way not in found]
                found.update(fresh)
                left.extend(fresh)
        return found

    def _add(self, state: _State) -> int:
        if len(self.states) >= MOST_STATES:
            raise NotRun(f"more than {MOST_STATES} states when its repetitions are written out")
        self.states.append(state)
        return len(self.states) - 1

    def _lead(self, part: _Part, after: int) -> int:
        """The state with which a part begins that goes on with the state `after`."""
        match part:
            case _One(fits=fits):
                return self._add(_State(fits=fits, ways=(after,)))
            case _Place(kind=kind):
                return self._add(_State(place=kind, ways=(after,)))
            case _Sequence(parts=parts):
                for each in reversed(parts):
                    after = self._lead(each, after)
                return after
            case _Choice(ways=ways):
                return self._add(_State(ways=tuple(self._lead(each, after) for each in ways)))
            case _Repeat(part=inner, least=least, most=most):
                return self._lead_repeated(inner, least, most, after)

    def _lead_repeated(self, inner: _Part, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._add(_State())
            self.states[loop].ways = (self._lead(inner, loop), after)
            after = loop
        else:
            end = after
            for _ in range(min(most - least, MOST_STATES)):
                after = self._add(_State(ways=(self._lead(inner, after), end)))
        for _ in range(min(least, MOST_STATES + 1)):
            begin = self._lead(inner, after)
            if begin == after:  # of nothing, as often as one likes
                break
            after = begin
        return after


def _holds(place: str, text: str, at: int) -> bool:
    if place == "^":
        return at == 0
    if place == "$":
        return at == len(text)
    before = at > 0 and _is_word(text[at - 1])
    following = at < len(text) and _is_word(text[at])
    return (before != following) == (place == "b")


@lru_cache(maxsize=500)
def compiled(text: str) -> Pattern:
    """The pattern of a text. Raises NoPattern or NotRun.

    >>> compiled("^(a+)+$").found_in("a" * 1000 + "!")
    False
    """
    return Pattern(text)
