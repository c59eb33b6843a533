"""A process that a test pauses or kills at a place does nothing after that place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latecomer.store.failpoints import VARIABLE

SCRIPT = """
import sys, threading
from latecomer.store.failpoints import failpoint

def there():
    failpoint("there", 0)
    for _ in range(1000):
        with open(sys.argv[1], "a") as after:
            after.write("went on")

thread = threading.Thread(target=there)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("how", ["pause:", ""], ids=["paused", "killed"])
def test_the_thread_that_gets_there_goes_no_further(tmp_path: Path, how: str) -> None:
    for nth in range(8):
        after = tmp_path / str(nth)
        environment = {**os.environ, VARIABLE: f"{how}there@0"}
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(after)], env=environment)
        try:
            about = Path(f"/proc/{process.pid}/stat")
            until = time.monotonic() + 60
            while about.read_text().rpartition(")")[2].split()[0] not in "TZ":
                assert time.monotonic() < until
                time.sleep(0.01)
            assert not after.exists()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
