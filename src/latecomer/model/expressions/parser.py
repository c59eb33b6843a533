"""Parses an expression: its type, and how to compute its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from latecomer.model import types
from latecomer.model.expressions.functions import (
    INTERVAL,
    IRREGULAR,
    UNITS,
    UNKNOWN,
    called,
    chosen,
    element,
    operation,
)
from latecomer.model.expressions.values import (
    COMPARED,
    NULL,
    Expression,
    Value,
    both,
    comparison,
    computed,
    fitting,
    membership,
    negated,
    negative,
    number,
    of_known,
)
from latecomer.model.predicates import Token, check_fix, tokens
from latecomer.model.types import INTEGER_BITS, normal_type


class UnknownType(ValueError):
    """Only Spark knows the type of an expression."""


def expression(written: str, columns: Mapping[str, str]) -> Expression:
    """An expression over columns of these types.

    >>> expression("paise / 100", {"paise": "bigint"}).kind
    'double'
    >>> expression("paise / 100", {"paise": "bigint"}).of({"paise": 250})
    2.5
    >>> expression("hour(at)", {"at": "timestamp"}).kind
    'int'
    """
    check_fix(written, "column")
    parsed = _Parser(written, columns).whole()
    if types.nested_type(parsed.kind) is not None:
        raise UnknownType(
            f"it is {parsed.kind}, and a derived column has one value; take one value of it, such as size(…), or all "
            f"of it as text: to_json({written.strip()})"
        )
    if parsed.kind in (NULL, INTERVAL, UNKNOWN.kind):
        raise UnknownType(f"its type is not known here; say it: cast({written.strip()} as TYPE)")
    return parsed


def condition(written: str, columns: Mapping[str, str]) -> Value | None:
    """The function that evaluates a condition over columns of these types; None where only Spark can."""
    parsed = condition_of(written, columns)
    return None if parsed is None else parsed.value


def condition_of(written: str, columns: Mapping[str, str]) -> Expression | None:
    """A condition over columns of these types; None where only Spark can evaluate it."""
    parsed = _Parser(written, columns).whole()
    known = parsed.kind in ("boolean", NULL) and parsed.value is not None
    return replace(parsed, kind="boolean") if known else None


def _field(parsed: Expression, name: str) -> Expression:
    """A field of an object in a list or a map."""
    nested = types.nested_type(parsed.kind)
    if nested is None or nested[0] != "struct":
        return UNKNOWN
    kind = {field.lower(): kind for field, kind in nested[1].items()}.get(name.lower())
    if kind is None:
        raise ValueError(f"has no field {name} in {parsed.kind}; there are {', '.join(nested[1])}")
    return Expression(kind)


def _as_it_is(parsed: Expression) -> Expression:
    return parsed


class _Parser:
    """Reads an expression by recursive descent, from the loosest operator to the tightest."""

    def __init__(self, written: str, columns: Mapping[str, str]) -> None:
        self.written = written
        self.columns = columns
        self.tokens = tokens(written)
        self.at = 0

    def whole(self) -> Expression:
        parsed = self._either()
        if self.at < len(self.tokens):
            raise self._unexpected()
        return parsed

    # Tokens

    def _next(self, ahead: int = 0) -> Token | None:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def _text(self, ahead: int = 0) -> str:
        token = self._next(ahead)
        return "" if token is None or token.kind == "text" else token.word or token.text

    def _take(self, *texts: str) -> str:
        """Consume the next token if it is one of these. Returns its text, or an empty text."""
        if self._text() in texts:
            self.at += 1
            return self._text(-1)
        return ""

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected()

    def _unexpected(self) -> ValueError:
        token = self._next()
        where = "ends too early" if token is None else f"has {token.text} where it was not expected"
        return ValueError(f"{where}; write an SQL expression over the source's columns")

    # Conditions

    def _chain(self, operand: Callable[[], Expression], *signs: str) -> Expression:
        """Operands with operators of one rank between them, from left to right."""
        parsed = operand()
        while sign := self._take(*signs):
            parsed = operation(sign, parsed, operand())
        return parsed

    def _either(self) -> Expression:
        return self._chain(self._both, "or")

    def _both(self) -> Expression:
        return self._chain(self._negated, "and")

    def _negated(self) -> Expression:
        return negated(self._negated()) if self._take("not", "!") else self._compared()

    def _compared(self) -> Expression:
        left = self._bits()
        while True:
            sign = self._text()
            if sign in COMPARED or sign == "<=>":
                self.at += 1
                left = comparison(sign, left, self._bits())
            elif sign == "is":
                left = self._is(left)
            elif sign in ("in", "between", "like", "ilike", "rlike", "regexp", "not"):
                left = self._matched(left)
            else:
                return left

    def _is(self, left: Expression) -> Expression:
        self._expect("is")
        turned = negated if self._take("not") else _as_it_is
        if self._take("distinct"):
            self._expect("from")
            return negated(turned(comparison("<=>", left, self._bits())))
        word = self._take("null", "true", "false")
        if not word:
            raise self._unexpected()
        wanted = {"null": None, "true": True, "false": False}[word]
        if wanted is not None and left.kind not in ("boolean", NULL):
            return Expression("boolean")
        return turned(computed([left], "boolean", lambda value: value is wanted, "is", wanted))

    def _matched(self, left: Expression) -> Expression:
        """`in`, `between`, and the operators that match text with a pattern."""
        turned = negated if self._take("not") else _as_it_is
        word = self._take("in", "between", "like", "ilike", "rlike", "regexp")
        if word == "in":
            given = self._arguments()
            if not given:
                raise self._unexpected()
            return turned(membership(left, given))
        if word == "between":
            above = comparison(">=", left, self._bits())
            self._expect("and")
            return turned(both(above, comparison("<=", left, self._bits())))
        if not word:
            raise self._unexpected()
        self._take("any", "all", "some")
        self._bits()
        if self._take("escape"):
            self._bits()
        return Expression("boolean")

    # Values

    def _bits(self) -> Expression:
        return self._chain(self._sum, "&", "|", "^")

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-", "||")

    def _product(self) -> Expression:
        return self._chain(self._unary, "*", "/", "%", "div")

    def _unary(self) -> Expression:
        if sign := self._take("-", "+", "~"):
            parsed = self._unary()
            if not types.is_numeric(parsed.kind):
                return UNKNOWN
            if sign == "+":
                return parsed
            least = -(1 << INTEGER_BITS[parsed.kind]) if parsed.kind in INTEGER_BITS else None
            if sign == "~" or parsed.kind == "float":
                return Expression(parsed.kind)
            return of_known([parsed], parsed.kind, lambda a: negative(a, least))
        return self._indexed()

    def _indexed(self) -> Expression:
        parsed = self._primary()
        while True:
            if self._take("["):
                self._either()
                self._expect("]")
                parsed = element(parsed)
            elif (token := self._next()) is not None and token.kind == "field":
                self.at += 1
                for name in token.text[1:].split("."):
                    parsed = _field(parsed, name)
            elif self._take("::"):
                parsed = self._as(parsed)
            else:
                return parsed

    def _primary(self) -> Expression:
        token = self._next()
        if token is None:
            raise self._unexpected()
        self.at += 1
        if token.text == "(":
            parsed = self._either()
            self._expect(")")
            return parsed
        if token.kind == "number":
            return number(token.text)
        if token.kind == "text":
            plain = token.text[0] == "'" and not {"\\", "'"} & set(token.text[1:-1])
            text = token.text[1:-1]
            return Expression("string", lambda _: text, ("constant", text)) if plain else Expression("string")
        if token.kind in ("quoted", "path"):
            return self._column(token.name)
        return self._word(token)

    def _word(self, token: Token) -> Expression:
        word = token.word
        following = self._next()
        if following is not None and following.text == "(" and word != "in":
            return self._call(word)
        if word in ("null", "true", "false"):
            constant = {"null": None, "true": True, "false": False}[word]
            form = () if constant is None else ("constant", constant)
            return Expression(NULL if constant is None else "boolean", lambda _: constant, form)
        if word == "case":
            return self._case()
        if word in ("date", "timestamp") and following is not None and following.kind == "text":
            self.at += 1
            return Expression(word)
        if word == "interval":
            return self._interval()
        if not word:
            self.at -= 1
            raise self._unexpected()
        return self._column(token.text)

    def _interval(self) -> Expression:
        """An interval of time: `interval 1 day`, `interval '1' hour`. It has no type of a column."""
        while (token := self._next()) is not None and (
            token.kind in ("number", "text") or token.word.rstrip("s") in UNITS or token.word == "to"
        ):
            self.at += 1
        return Expression(INTERVAL)

    def _column(self, name: str) -> Expression:
        kind = self.columns.get(name)
        if kind is None:
            return UNKNOWN
        simple = types.is_exact(kind) or kind in ("double", "string", "boolean")
        return Expression(kind, lambda row: row.get(name), ("column", name)) if simple else Expression(kind)

    def _case(self) -> Expression:
        subject = None if self._text() == "when" else self._either()
        branches: list[tuple[Expression, Expression]] = []
        while self._take("when"):
            asked = self._either()
            condition = asked if subject is None else comparison("=", subject, asked)
            self._expect("then")
            branches.append((condition, self._either()))
        otherwise = self._either() if self._take("else") else Expression(NULL, lambda _: None)
        self._expect("end")
        if not branches:
            raise self._unexpected()
        return chosen(branches, otherwise)

    def _arguments(self) -> list[Expression]:
        self._expect("(")
        parsed: list[Expression] = []
        if self._take(")"):
            return parsed
        parsed.append(self._either())
        while self._take(","):
            parsed.append(self._either())
        self._expect(")")
        return parsed

    def _call(self, name: str) -> Expression:
        if name in ("cast", "try_cast"):
            self._expect("(")
            parsed = self._either()
            self._expect("as")
            parsed = self._as(parsed)
            self._expect(")")
            return parsed
        if name in IRREGULAR:
            self._skip_brackets()
            return Expression(IRREGULAR[name])
        return called(name, self._arguments())

    def _skip_brackets(self) -> None:
        """Skip a pair of brackets whose content is not a list of expressions."""
        depth = 0
        while (token := self._next()) is not None:
            self.at += 1
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                return

    def _as(self, parsed: Expression) -> Expression:
        """A value as the type that follows in the text."""
        written = self._text()
        self.at += 1
        if self._take("("):
            inside = []
            while not self._take(")"):
                inside.append(self._text())
                self.at += 1
                if self.at > len(self.tokens):
                    raise self._unexpected()
            written += f"({''.join(inside)})"
        kind = normal_type({"dec": "decimal", "numeric": "decimal", "real": "float"}.get(written, written))
        if kind == parsed.kind:
            return parsed
        if kind == "string" and parsed.kind in types.INTEGERS:
            return of_known([parsed], kind, str)
        if kind in types.INTEGERS and parsed.kind in types.INTEGERS:
            return of_known([parsed], kind, lambda a: fitting(a, kind))
        if kind == "double" and parsed.kind in types.INTEGERS:
            return of_known([parsed], kind, float)
        return Expression(kind)
