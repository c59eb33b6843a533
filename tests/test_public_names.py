"""What `import latecomer` offers: sorted, complete, and there."""

from __future__ import annotations

import ast
import inspect

import latecomer
from latecomer import errors
from latecomer.config.sinks import SINKS
from latecomer.engine.running import run
from latecomer.model.strategies import STRATEGIES
from latecomer.model.windows import KINDS


def test_the_public_names_are_sorted_and_exist() -> None:
    assert list(latecomer.__all__) == sorted(latecomer.__all__)
    assert all(getattr(latecomer, name) is not None for name in latecomer.__all__)


def test_a_name_is_listed_where_it_is_loaded_from_and_for_type_checkers() -> None:
    tree = ast.parse(inspect.getsource(latecomer))
    (for_checkers,) = (each for each in tree.body if isinstance(each, ast.If))
    checked = {
        alias.name for each in for_checkers.body if isinstance(each, ast.ImportFrom) for alias in each.names
    }
    assert set(latecomer._PLACES) == checked == set(latecomer.__all__)


def test_what_a_pipeline_file_may_name_is_public() -> None:
    named = {each.__name__ for each in (*SINKS.values(), *KINDS.values(), *STRATEGIES.values())}
    assert named - {"Custom"} <= set(latecomer.__all__)  # stands for a class of the user's own


def test_run_takes_what_the_engine_takes() -> None:
    public, of_the_engine = (inspect.signature(each).parameters.values() for each in (latecomer.run, run))
    assert [(each.name, each.kind) for each in public] == [(each.name, each.kind) for each in of_the_engine]
    by_default = [
        {each.name: each.default for each in parameters if not callable(each.default)}
        for parameters in (public, of_the_engine)
    ]
    assert by_default[0] == by_default[1]


def test_errors_that_programs_raise_or_expect_are_public_and_all_others_are_in_one_module() -> None:
    declared = {
        name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, Exception)
    }
    public = {name for name in latecomer.__all__ if name in declared}
    assert public >= {"LatecomerError", "PipelineError", "SinkOutage", "SourceOutage", "StoreInUse"}
    assert all(issubclass(getattr(errors, name), errors.LatecomerError) for name in declared)
