"""Every error latecomer raises on purpose.

    LatecomerError
    ├── PipelineError        the pipeline file is wrong: file, line, field, value, fix
    ├── MachineError         Java or a package is missing or too old, or Spark cannot be started
    ├── SourceError          the source cannot be read at all
    │   ├── SourceOutage     it is down for a reason that may pass
    │   └── SchemaOutage     a schema is not available yet: the batch waits for it
    ├── StoreError           the store cannot be used
    │   ├── StoreInUse       another run holds it
    │   ├── StoreOutage      an object store cannot be reached for a reason that may pass
    │   ├── StoreMismatch    it was made by another pipeline or with other columns
    │   ├── NoStore          nothing has been run yet
    │   ├── TornCommit       a power cut left a commit of a table incomplete
    │   ├── TornCheckpoint   likewise, a summary of a table's commits
    │   └── NotCovered       retention has removed events that are needed
    ├── SinkError            a sink refused; the next run continues with it
    │   └── SinkOutage       it is down for a reason that may pass
    ├── RegistryError        a schema registry refused, or cannot be asked as it is
    │   └── RegistryOutage   it is down for a reason that may pass
    └── LedgerError          what was received and what is accounted for differ

The command line prints the message alone; `--debug` adds the trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from latecomer.errors.redacting import HIDDEN, is_secret, redacted, without_secrets, without_settings

BUG = "this is a bug in latecomer: report it"
"""The end of a message about what no input, no setting and no machine can cause."""


class LatecomerError(Exception):
    """The base of all errors that latecomer raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # The driver raises a task's error again, whatever arguments its constructor takes.
        return _restored, (type(self), self.args), self.__dict__

    def joined(self, _others: Sequence[Exception]) -> LatecomerError:
        """This error, with what the errors of other tasks add. A class that can join them overrides this."""
        return self


def _restored(kind: type[LatecomerError], args: tuple[object, ...]) -> LatecomerError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


@dataclass(frozen=True)
class Problem:
    """One mistake in a pipeline file: its place, the value there, and the fix."""

    field: str
    message: str
    value: object = None
    fix: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = self.file or "pipeline"
        if self.line is not None:
            place += f":{self.line}"
        shown = "" if self.value is None else f" (value: {self._shown_value()})"
        fix = f"\n    fix: {self.fix}" if self.fix else ""
        return f"{place}: {self.field}: {self.message}{shown}{fix}"

    def _shown_value(self) -> str:
        """The value, without secrets."""
        if is_secret(self.field):
            return HIDDEN
        if isinstance(self.value, str):
            return shortened(repr(redacted(self.value)), 120)
        return shortened(without_settings(repr(self.value)), 120)


def shortened(text: str, limit: int) -> str:
    """A text, cut to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def other_settings(names: Iterable[str]) -> str:
    """Changed settings, in words.

    >>> other_settings(["window", "aggregates"])
    'another window and other aggregates'
    """
    return " and ".join(f"{'other' if name.endswith('s') else 'another'} {name}" for name in names)


def nearest(value: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """The fix for a name that is not known: the name that is like it, or `otherwise` where none is. One with the same
    letters, in another order, is most like it.

    >>> nearest("totls", ["totals", "alerts"], "there are two"), nearest("x", ["totals"], "there is one")
    ('did you mean totals?', 'there is one')
    >>> nearest("cp1225", ["cp1252", "cp1255"], "there are two")
    'did you mean cp1252?'
    """
    names, letters = list(known), sorted(value)
    near = [name for name in names if sorted(name) == letters]
    near = near or difflib.get_close_matches(value, names, n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else otherwise


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """The fix for a name that is not known, with all names that are.

    >>> did_you_mean("totls", ["totals", "alerts"])
    'did you mean totals? there are totals, alerts'
    """
    names = list(known)
    choices = f"there {'are' if len(names) > 1 else 'is'} {', '.join(names)}" if names else "there is none"
    near = nearest(value, names, "")
    return f"{near} {choices}" if near and len(names) > 1 else near or choices


def first_line(error: BaseException) -> str:
    """The first line of a library's error, shortened."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".; ")
    return shortened(text, 200)


class PipelineError(LatecomerError, ValueError):
    """The pipeline file, or an argument in Python, is wrong. `problems` has every mistake, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class MachineError(LatecomerError):
    """The machine lacks something that latecomer needs."""


class SourceError(LatecomerError):
    """The source cannot be read at all (single bad rows become dead letters instead)."""


class SourceOutage(SourceError):
    """A source cannot be read for a reason that may pass: it is tried again. A source of your own raises it, too."""


class SchemaOutage(SourceError):
    """A schema that records were written with is not available yet: their batch waits for it."""


class StoreError(LatecomerError):
    """The store cannot be used."""


class StoreInUse(StoreError):
    """Another run holds the store."""


class StoreOutage(StoreError):
    """An object store cannot be reached for a reason that may pass. Retries have failed."""


class StoreMismatch(StoreError):
    """The store was made by another pipeline, or with other columns."""


class NoStore(StoreError):
    """There is no store yet: nothing has been run."""


class TornCommit(StoreError):
    """A commit file of a table is incomplete: the machine lost power while it was written."""

    def __init__(self, table: PurePath, version: int, newest: int | None = None) -> None:
        self.table, self.version = table, version
        fix = "run the pipeline (latecomer run FILE), which sets it aside and computes its batch again"
        if newest is not None and newest > version:
            fix = "later commits rest on it: restore the store from a backup, or start a new one"
        super().__init__(
            f"table {table}: commit {version:020d}.json is incomplete, as after a power cut; {fix}"
        )


class TornCheckpoint(StoreError):
    """A summary of a table's commits is incomplete: the machine lost power while it was written."""

    def __init__(self, file: PurePath) -> None:
        super().__init__(
            f"{file} is incomplete, as after a power cut; run the pipeline (latecomer run FILE), which removes it: "
            "the commits say the same"
        )


class NotCovered(StoreError):
    """The log no longer holds the events that are needed: retention has removed them."""


class SinkError(LatecomerError):
    """A sink refused or is down. Nothing is lost: the next run continues with it."""


class SinkOutage(SinkError):
    """A sink is down for a reason that may pass: it is tried again. A sink of your own raises it, too."""

    def __init__(self, reason: str, sentence: str | None = None) -> None:
        self.reason = without_secrets(reason)
        super().__init__(self.reason if sentence is None else sentence)


class RegistryError(LatecomerError):
    """A schema registry refused. `code` is its error code, such as 40403 for an id that it does not know."""

    def __init__(self, message: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(message)


class RegistryOutage(RegistryError):
    """A schema registry does not answer for a reason that may pass: ask again."""


class LedgerError(LatecomerError):
    """What was received and what is accounted for differ."""
