"""A store, checked before anything is computed from its log."""

from __future__ import annotations

from collections.abc import Callable

from latecomer.config import checks
from latecomer.config.load import check_against
from latecomer.config.models import Pipeline
from latecomer.errors import NoStore, PipelineError
from latecomer.store.private import keep_private
from latecomer.store.store import Store, open_store


def checked_store(pipeline: Pipeline, opened: Callable[[Pipeline], Store] = open_store) -> Store:
    """The store of a pipeline that can run; every reason why it cannot is an error before Spark starts."""
    if problems := checks.check(pipeline):
        raise PipelineError(problems)
    keep_private(pipeline)
    store = opened(pipeline)
    check_against(pipeline, store.columns)
    store.last_complete_batch()
    return store


def not_computed(output: str) -> NoStore:
    """The error for an output that no run has computed."""
    return NoStore(f"output {output} has not been computed yet; run the pipeline first")
