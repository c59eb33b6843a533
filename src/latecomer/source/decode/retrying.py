"""A source file that cannot be read: is it the file, or is it the moment?

Only what is wrong with a file's bytes sets it aside for good. A disk or network that stumbles, too many open
files, a file that is just being replaced: all of that may pass, so the batch is read again, a few times and
after longer and longer waits. If it does not pass, the run stops, and the next one reads the batch again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TypeVar

from latecomer.errors import SourceError, SourceOutage, StoreError
from latecomer.objects.files import Replaced
from latecomer.objects.readable import Readable
from latecomer.source.decode.files import SourceFile

LOG = logging.getLogger(__name__)
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt: a quarter of a minute in all."""
LONGEST_WAIT = 30.0
"""Seconds between two questions for a schema that cannot be had."""
sleep = time.sleep
_Result = TypeVar("_Result")


def waits() -> Iterator[float]:
    """Seconds before each further question for a schema, without an end.

    >>> from itertools import islice
    >>> list(islice(waits(), 8))
    [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    wait = WAITS[0]
    while True:
        yield wait
        wait = min(2 * wait, LONGEST_WAIT)


def patiently(work: Callable[[], _Result]) -> _Result:
    """What the work comes to; it is done again after a wait while it fails for a reason that may pass."""
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
    """While a file is read: what the operating system or an object store says may pass, what a decoder says does not.

    Arrow and gzip raise an `OSError` for bytes that they do not understand, too: one without a number.
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
    """What a file is at this moment."""
    with reading(file):
        return file.state


def remembered(look: Callable[..., _Result]) -> Callable[..., _Result]:
    """What is seen in a file, remembered for as long as it is the same file: a worker reads several parts of it."""
    known = lru_cache(maxsize=4096)(lambda _state, *given: look(*given))

    @wraps(look)
    def looking(file: SourceFile, *given: Hashable) -> _Result:
        return known(state_of(file), file, *given)

    return looking


@contextmanager
def reading_unchanged(file: SourceFile) -> Iterator[None]:
    """Refuse what was read of a file that has been replaced, or written on, meanwhile: part of it may be missing."""
    before = state_of(file)
    yield
    if state_of(file) != before:
        raise _changed(file)
