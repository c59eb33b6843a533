"""The kernels of sessions: numbers of keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from latecomer.windowing.sessions import Places, key_codes


def test_floats_that_are_equal_are_one_key_whatever_their_bits() -> None:
    bits = np.array([0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001, 0, 0], np.uint64)
    floats = bits.view(np.float64)
    floats[2:] = 0.0, -0.0
    moments = np.zeros(4, np.int64)
    negative = pa.array(-floats)  # so that a part has the other NaN, with its sign set
    first, second = key_codes(
        [Places([pa.array(floats)], moments, moments), Places([negative], moments, moments)]
    )
    assert len(set(first[:2].tolist() + second[:2].tolist())) == 1
    assert len(set(first[2:].tolist() + second[2:].tolist())) == 1
    assert first[0] != first[2]
