"""What a damaged source file is, for each format: the one place, for all who look into files without Spark.

Whatever the bytes of a file, looking into it gives an answer or `DamagedFile`. What the operating system says of the
disk stays an `OSError`: it may pass (`source/retrying.py`). Then it is a dead letter, or left out
where columns are inferred. `tests/fuzz` holds this to account with mutated files.
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
"""Decoders raise an `OSError` without a number; a footer that points nowhere has Arrow seek there in vain."""


class DamagedFile(Exception):
    """A file that cannot be read in its format. The message is the reason."""


@contextmanager
def damage_found(file_format: str) -> Iterator[None]:
    """What goes wrong with a file's content in here becomes `DamagedFile`."""
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
    import pyarrow as pa  # is loaded only where it is needed

    # Arrow hands over names that are not UTF-8, and Python then refuses them: a ValueError.
    return OSError, ValueError, pa.ArrowException
