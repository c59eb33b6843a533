"""The types of NumPy's arrays by name. They are texts, because a pipeline file is read without NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Flags: TypeAlias = "npt.NDArray[np.bool_]"
"""True or false for each row."""
Integers: TypeAlias = "npt.NDArray[np.int64]"
"""Numbers of rows, codes and other whole numbers."""
Micros: TypeAlias = "npt.NDArray[np.int64]"
"""Moments in microseconds."""
Doubles: TypeAlias = "npt.NDArray[np.float64]"
Objects: TypeAlias = "npt.NDArray[np.object_]"
"""Texts, or nothing."""
FateCodes: TypeAlias = "npt.NDArray[np.int8]"
"""Fates by their places in a list."""
Unsigned: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes, bits, and other whole numbers without a sign."""
