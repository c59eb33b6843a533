"""Named places where a run can be made to die, so that tests can prove what a crash leaves behind.

`LATECOMER_FAILPOINT=events.committed@2` kills the process with SIGKILL when batch 2 gets there: no
handler runs and nothing is flushed. `pause:events.committed@2` stops it there with SIGSTOP, until SIGCONT.
Unset, a failpoint costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "LATECOMER_FAILPOINT"


def failpoint(name: str, batch: int) -> None:
    """Die here, or pause, if this is the place and batch that the environment names."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    if wanted == f"{name}@{batch}":
        os.kill(os.getpid(), signal.SIGKILL)
    elif wanted == f"pause:{name}@{batch}":
        # To this thread: sent to the process, the signal may reach another thread first, and this one would go on.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
