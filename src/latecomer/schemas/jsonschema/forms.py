"""A schema as text. The normalized form is the same for schemas that differ in layout alone."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latecomer.schemas.jsonschema.parsing import Schema


def normal_text(value: Any) -> str:
    """JSON without white space, with keys in order.

    >>> normal_text({"type": "string", "minLength": 1})
    '{"minLength":1,"type":"string"}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def normalized(schema: Schema) -> str:
    """The normalized form: white space and the order of keys are dropped, all else is kept, comments and titles too."""
    return schema.text


def sha256(schema: Schema) -> str:
    """SHA-256 of the normalized form, in hexadecimal digits."""
    return hashlib.sha256(schema.text.encode()).hexdigest()
