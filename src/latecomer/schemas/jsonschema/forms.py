"""A schema as text. The normalized form is the same for schemas that differ only in layout."""

from __future__ import annotations

import json
from typing import Any


def normal_text(value: Any) -> str:
    """JSON without white space, with sorted keys.

    >>> normal_text({"type": "string", "minLength": 1})
    '{"minLength":1,"type":"string"}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
