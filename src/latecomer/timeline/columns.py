"""The private columns of the ends at which windows close, beside END of `windowing/columns.py`."""

from __future__ import annotations

from latecomer.config.checks import PRIVATE

FIRED_AT = f"{PRIVATE}fired_at"
"""The arrival clock at the step of the watermark that first reached an end, in microseconds."""
FIRED_WATERMARK = f"{PRIVATE}fired_watermark"
"""The watermark after that step, in microseconds."""
