"""Sizes as people read them."""

from __future__ import annotations

import pytest

from latecomer.config.sizes import size_in_words


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),  # and not 1000.0 kB
        (1_023 * 1_024, "1.0 MB"),  # and not 1.02e+03 KiB
        (1_200_000_000_000_000, "1,200.0 TB"),
    ],
)
def test_a_measured_size_is_shown_in_its_unit(size: int, shown: str) -> None:
    assert size_in_words(size) == shown
