from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def random() -> np.random.Generator:
    """Random numbers: the same for each test, whichever tests its process ran before."""
    return np.random.default_rng(5)
