"""How the tests are run. What they share is in shared_fixtures.py.

Random examples are few and the same in every run of `make test`, so that it says something of the change and not
of the day; `make test-long` draws many, and new ones each time (examples_kit.py).
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator

import pytest

from order_kit import in_order, takes
from ram_kit import folder_in_memory

IN_MEMORY = folder_in_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and config.option.basetemp is None:
        config.option.basetemp = IN_MEMORY
    if not _hands_out(config):
        config.pluginmanager.import_plugin("shared_fixtures")


def _hands_out(config: pytest.Config) -> bool:
    """Whether this process only hands the tests out to others: then it need not read what they run."""
    spread = config.getoption("dist", "no") != "no" and not config.getoption("collectonly")
    return spread and not hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    gc.unfreeze()  # some extensions complain of what is not collected at the end
    if not hasattr(session.config, "workerinput") and IN_MEMORY and not exitstatus:
        shutil.rmtree(IN_MEMORY, ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        is_property = hasattr(getattr(item, "obj", None), "hypothesis")
        if is_property and not takes(item, "spark"):
            item.add_marker("drawn")
    yield
    items[:] = in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """What has been read so far stays to the end: the collector of garbage need not go through it again and again."""
    gc.freeze()
