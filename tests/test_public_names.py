"""What `import latecomer` offers: sorted, complete, and there."""

from __future__ import annotations

import inspect

import latecomer
from latecomer import errors


def test_the_public_names_are_sorted_and_exist() -> None:
    assert list(latecomer.__all__) == sorted(latecomer.__all__)
    assert all(getattr(latecomer, name) is not None for name in latecomer.__all__)


def test_run_is_the_function() -> None:
    assert inspect.isfunction(latecomer.run)


def test_every_error_is_public() -> None:
    declared = {
        name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, Exception)
    }
    assert declared <= set(latecomer.__all__)
