"""A source file that cannot be read: is the file damaged, or is it an outage?

Only damaged bytes make a file a dead letter. A disk or network that fails for a moment, too many open files, a file
that is just being replaced: all of these may pass, so the batch is read again, a few times and after longer and longer
waits. If it does not pass, the run stops, and the next run reads the batch again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TypeVar

from latecomer.errors import SourceError, SourceOutage, StoreError
from latecomer.objects.open_files import Replaced
from latecomer.objects.readable import Readable
from latecomer.source.decode.base import SourceFile

LOG = logging.getLogger(__name__)
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt: a quarter of a minute in all."""
LONGEST_WAIT = 30.0
"""Seconds between two requests for a schema that cannot be fetched, at most."""
sleep = time.sleep
_Result = TypeVar("_Result")


def waits() -> Iterator[float]:
    """Seconds before each further request for a schema, without end.

    >>> from itertools import islice
    >>> list(islice(waits(), 8))
    [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    wait = WAITS[0]
    while True:
        yield wait
        wait = min(2 * wait, LONGEST_WAIT)


def with_retries(work: Callable[[], _Result]) -> _Result:
    """The result of the work. After an outage it is done again, after a wait."""
    for wait in WAITS:
        try:
            return work()
        except SourceOutage as error:
            LOG.warning("%s; trying again in %g s", error.args[0].split(";")[0], wait)
            sleep(wait)
    try:
        return work()
    except SourceOutage as error:
        raise SourceError(
            f"{error}. It was tried {len(WAITS) + 1} times within {sum(WAITS):g} s; the next run reads it again"
        ) from error


@contextmanager
def reading(file: Readable) -> Iterator[None]:
    """While a file is read: errors of the operating system or an object store are outages, those of a decoder are not.

    Arrow and gzip raise an `OSError` without a number for bytes that they do not understand.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise _cannot_be_read(file, error.strerror) from None
    except Replaced:
        raise _changed(file) from None
    except StoreError as error:
        raise _cannot_be_read(file, error) from error


def _cannot_be_read(file: Readable, reason: object) -> SourceOutage:
    return SourceOutage(
        f"{file} was found, and now it cannot be read ({reason}); bring it back and run again, or put an empty "
        "file in its place to go on without it"
    )


def _changed(file: Readable) -> SourceOutage:
    return SourceOutage(
        f"{file} was changed while it was read; let files come whole: write them elsewhere or under a name that "
        "begins with a dot, then rename them, and run again"
    )


def state_of(file: SourceFile) -> Hashable:
    """The state of a file at this moment."""
    with reading(file):
        return file.state


def cached_by_file(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """The function of a file, cached while the file is unchanged: a worker reads several splits of it."""
    cached = lru_cache(maxsize=4096)(lambda _state, *arguments: function(*arguments))

    @wraps(function)
    def of_file(file: SourceFile, *arguments: Hashable) -> _Result:
        return cached(state_of(file), file, *arguments)

    return of_file


@contextmanager
def reading_unchanged(file: SourceFile) -> Iterator[None]:
    """Refuse what was read of a file that was replaced or written to meanwhile: part of it may be missing."""
    before = state_of(file)
    yield
    if state_of(file) != before:
        raise _changed(file)
