"""Which errors mean a damaged source file, by format: for all code that reads files without Spark.

Whatever bytes a file has, reading it gives a result or raises `DamagedFile`. The file is then a dead letter, or is left
out where columns are inferred. Errors of the disk stay an `OSError`: they may pass (`source/decode/retrying.py`).
`tests/fuzz` checks this with mutated files.
"""

from __future__ import annotations

import csv
import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

PARQUET = "parquet"
_TEXT = (OSError, EOFError, UnicodeError, csv.Error, zlib.error)
_LONGEST = 300
_OF_THE_BYTES = (None, errno.EINVAL, errno.EOVERFLOW)
"""The `OSError`s that the content causes: decoders raise one without a number, and Arrow fails to seek where a damaged
footer points."""


class DamagedFile(Exception):
    """A file that cannot be read in its format. The message is the reason."""


@contextmanager
def damage_found(file_format: str) -> Iterator[None]:
    """Turns the errors that a file's content causes within it into `DamagedFile`."""
    try:
        yield
    except _errors(file_format) as error:
        if isinstance(error, OSError) and error.errno not in _OF_THE_BYTES:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(reason[:_LONGEST]) from None


def _errors(file_format: str) -> tuple[type[Exception], ...]:
    if file_format != PARQUET:
        return _TEXT
    import pyarrow as pa  # loaded only where it is needed

    # A column name from Arrow that is not UTF-8 raises a ValueError in Python.
    return OSError, ValueError, pa.ArrowException
