"""Parses an expression: its type, and how to compute its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from latecomer.model import types
from latecomer.model.expressions.functions import (
    ARRAY,
    COMMON,
    FUNCTION_TYPES,
    IRREGULAR,
    SAME_ARRAY,
    SAME_AS_FIRST,
    TRIED,
    UNITS,
)
from latecomer.model.expressions.values import (
    COMPARED,
    COMPUTED,
    NULL,
    Expression,
    Row,
    Value,
    both,
    comparison,
    computed,
    divided,
    either,
    fitting,
    joined_text,
    membership,
    negated,
    negative,
    number,
    of_known,
    same,
)
from latecomer.model.predicates import Token, check_fix, tokens
from latecomer.model.types import INTEGER_BITS, normal_type

INTERVAL = "interval"
_UNKNOWN = Expression("unknown")
"""An expression, or part of one, whose type is not known here; a cast around it may give it."""


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
    if parsed.kind in (NULL, INTERVAL, _UNKNOWN.kind):
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


def _element(parsed: Expression) -> Expression:
    """An element of a list, or a value of a map."""
    match types.nested_type(parsed.kind):
        case ("array", {"element": kind}) | ("map", {"value": kind}):
            return Expression(kind)
    return _UNKNOWN


def _field(parsed: Expression, name: str) -> Expression:
    """A field of an object in a list or a map."""
    nested = types.nested_type(parsed.kind)
    if nested is None or nested[0] != "struct":
        return _UNKNOWN
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

    def _either(self) -> Expression:
        parsed = self._both()
        while self._take("or"):
            parsed = either(parsed, self._both())
        return parsed

    def _both(self) -> Expression:
        parsed = self._negated()
        while self._take("and"):
            parsed = both(parsed, self._negated())
        return parsed

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
        parsed = self._sum()
        while self._take("&", "|", "^"):
            parsed = self._wider(parsed, self._sum())
        return parsed

    def _sum(self) -> Expression:
        parsed = self._product()
        while sign := self._take("+", "-", "||"):
            other = self._product()
            parsed = joined_text([parsed, other]) if sign == "||" else self._arithmetic(sign, parsed, other)
        return parsed

    def _product(self) -> Expression:
        parsed = self._unary()
        while sign := self._take("*", "/", "%", "div"):
            parsed = self._arithmetic(sign, parsed, self._unary())
        return parsed

    def _unary(self) -> Expression:
        if sign := self._take("-", "+", "~"):
            parsed = self._unary()
            if not types.is_numeric(parsed.kind):
                return _UNKNOWN
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
                parsed = _element(parsed)
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
            return _UNKNOWN
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
        return self._chosen(branches, otherwise)

    def _chosen(self, branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
        kind = self._common([*(value for _, value in branches), otherwise])
        parts = [part for branch in branches for part in branch] + [otherwise]
        if not all(same(part, kind) for part in (*(value for _, value in branches), otherwise)):
            return Expression(kind)
        if any(part.value is None for part in parts):
            return Expression(kind)
        asked = [(condition.value, value.value) for condition, value in branches]

        def chosen(row: Row) -> object:
            for condition, value in asked:
                if condition is not None and value is not None and condition(row) is True:
                    return value(row)
            return None if otherwise.value is None else otherwise.value(row)

        form = ("chosen", *parts) if all(part.form and part.kind != NULL for part in parts) else ()
        return Expression(kind, chosen, form)

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
        given = self._arguments()
        if name in FUNCTION_TYPES:
            return joined_text(given) if name == "concat" and given else Expression(FUNCTION_TYPES[name])
        if name == "if" and len(given) == 3:
            return self._chosen([(given[0], given[1])], given[2])
        if name == "nvl2" and len(given) == 3:
            return Expression(self._common(given[1:]))
        if name in COMMON and given:
            return self._first_of(given) if name == "coalesce" else Expression(self._common(given))
        if name in ("mod", "pmod", "try_mod") and len(given) == 2:
            return self._wider(*given)
        if name in SAME_AS_FIRST and given:
            return Expression(given[0].kind)
        if name in TRIED and len(given) == 2:
            return Expression(self._arithmetic(TRIED[name], *given).kind)
        if name in ("round", "bround") and given and not types.is_decimal(given[0].kind):
            return Expression(given[0].kind)
        if name in ("ceil", "ceiling", "floor") and len(given) == 1 and not types.is_decimal(given[0].kind):
            return Expression("bigint")
        if name in ("shiftleft", "shiftright") and given:
            return Expression("bigint" if given[0].kind == "bigint" else "int")
        if name in SAME_ARRAY and given and types.is_nested(given[0].kind):
            return Expression(given[0].kind)
        if name in ("array_max", "array_min") and given:
            return _element(given[0])
        if name in ("map_keys", "map_values") and given:
            inner = "string" if name == "map_keys" else _element(given[0]).kind
            return _UNKNOWN if inner == _UNKNOWN.kind else Expression(f"{ARRAY}{inner}>")
        if name == "array" and given:
            common = self._common(given)
            return _UNKNOWN if common == _UNKNOWN.kind else Expression(f"{ARRAY}{common}>")
        if name in ("element_at", "get", "try_element_at") and given:
            return _element(given[0])
        return _UNKNOWN

    def _skip_brackets(self) -> None:
        """Skip a pair of brackets whose content is not a list of expressions."""
        depth = 0
        while (token := self._next()) is not None:
            self.at += 1
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                return

    def _first_of(self, given: Sequence[Expression]) -> Expression:
        kind = self._common(given)
        if not all(same(each, kind) for each in given):
            return Expression(kind)
        values = [each.value for each in given if each.value is not None]

        def first(row: Row) -> object:
            return next((parsed for value in values if (parsed := value(row)) is not None), None)

        form = ("first", *given) if all(each.form for each in given) else ()
        return Expression(kind, first, form) if len(values) == len(given) else Expression(kind)

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

    # Types

    def _arithmetic(self, sign: str, left: Expression, right: Expression) -> Expression:
        kinds = (left.kind, right.kind)
        if INTERVAL in kinds:
            return self._moved(sign, left, right)
        if "date" in kinds and sign in "+-" and right.kind in types.INTEGERS:
            return Expression("date")
        if not all(types.is_numeric(kind) for kind in kinds) or any(map(types.is_decimal, kinds)):
            return _UNKNOWN
        if sign == "/":
            if types.FLOATS & set(kinds) - {"double"}:
                return Expression("double")
            return of_known([left, right], "double", divided, "divide")
        if sign == "div":
            return Expression("bigint")
        wider = self._wider(left, right)
        compute = COMPUTED.get(sign)
        if compute is None or wider.kind == "float" or "float" in kinds:
            return wider
        if wider.kind == "double":
            return of_known(
                [left, right], "double", lambda a, b: compute(float(a), float(b)), "compute", sign
            )
        kind = wider.kind
        return of_known([left, right], kind, lambda a, b: fitting(compute(a, b), kind), "compute", sign)

    def _moved(self, sign: str, left: Expression, right: Expression) -> Expression:
        moment = left if right.kind == INTERVAL else right
        if sign not in ("+", "-") or moment.kind not in ("timestamp", "timestamp_ntz"):
            return _UNKNOWN
        return Expression(moment.kind)

    def _wider(self, left: Expression, right: Expression) -> Expression:
        return Expression(self._common([left, right]))

    def _common(self, given: Sequence[Expression]) -> str:
        """The type that holds all of these."""
        kinds = {each.kind for each in given} - {NULL}
        if len(kinds) <= 1:
            return kinds.pop() if kinds else NULL
        if kinds <= types.INTEGERS:
            return max(kinds, key=INTEGER_BITS.__getitem__)
        if kinds <= types.INTEGERS | types.FLOATS:
            return "double"
        return _UNKNOWN.kind
