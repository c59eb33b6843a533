"""Errors of Delta, Arrow and the file system about a table, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from latecomer.errors import StoreError, first_line
from latecomer.errors.system import refusal_of, refused_in_words
from latecomer.store import files as fs
from latecomer.store.files import Location


@contextmanager
def explained(root: Location) -> Iterator[None]:
    """Errors of Delta, Arrow and the file system about a table become a `StoreError` of one sentence."""
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        if (outage := fs.outage(root, error)) is not None:
            raise outage from error
        raise StoreError(_in_one_sentence(root, error)) from error


def is_overtaken(error: StoreError) -> bool:
    """Whether a commit was refused because another one with a transaction of the same application came first."""
    return isinstance(error.__cause__, CommitFailedError) and "Concurrent transaction" in str(error.__cause__)


def _in_one_sentence(root: Location, error: Exception) -> str:
    if (refusal := refusal_of(error)) is not None:
        return f"table {root} cannot be used: {refused_in_words(refusal, None)}"
    if isinstance(error, CommitFailedError):
        reason = f"was changed by somebody else meanwhile ({first_line(error)})"
        fix = "let only one run write to it, and run again"
    elif not fs.is_folder(root):
        reason, fix = "is not there any more", "put the store back, or start a new one"
    else:
        reason = f"cannot be used ({first_line(error)})"
        fix = "restore it from a copy, or start a new store and read the source again"
    return f"table {root} {reason}; {fix}"
