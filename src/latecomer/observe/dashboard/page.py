"""The page: one document with its style and script, and the policy with which a browser runs nothing else."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files


def _part(name: str) -> str:
    return files("latecomer.observe.dashboard").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


STYLE, SCRIPT = _part("style.css"), _part("script.js")
PAGE = _part("page.html").replace("/*style*/", STYLE).replace("/*script*/", SCRIPT).encode()
POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src {_hash(STYLE)}",
        f"script-src {_hash(SCRIPT)}",
        "connect-src 'self'",
        "img-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
