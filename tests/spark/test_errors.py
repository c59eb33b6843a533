"""Errors in one sentence, whatever they say themselves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from latecomer.errors import StoreError
from latecomer.spark.errors import explained, first_line


@pytest.mark.parametrize(
    ("error", "reason"),
    [(TimeoutError(), "TimeoutError"), (pa.ArrowInvalid(" "), "ArrowInvalid"), (OSError("lost"), "lost")],
)
def test_an_error_without_a_message_is_called_by_its_kind(error: Exception, reason: str) -> None:
    @explained("reading")
    def fail() -> None:
        raise error

    with pytest.raises(StoreError, match=f"^reading failed: {reason}$"):
        fail()
    assert first_line(error) == reason
