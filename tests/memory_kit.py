"""How much memory a test needs, whatever the tests before it have needed in the same process."""

from __future__ import annotations

import re
from pathlib import Path

_SELF = Path("/proc/self")
_FORGET_THE_PEAK = "5"


class Grown:
    """The memory of this process beyond what it had when this was made, in MiB."""

    def __init__(self) -> None:
        (_SELF / "clear_refs").write_text(_FORGET_THE_PEAK)
        self.before = _kib("VmRSS")

    def peak(self) -> int:
        """At most, since then."""
        return _kib("VmHWM") - self.before >> 10


def _kib(what: str) -> int:
    (found,) = re.findall(rf"^{what}:\s+(\d+) kB$", (_SELF / "status").read_text(), re.M)
    return int(found)
