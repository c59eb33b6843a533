"""Thousands of made-up requests: each gets a documented answer, and the server goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemas.registry.registry_kit import Server, environment

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.mark.long
def test_the_whole_api_under_schemathesis(registry: Server, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("run", f"{registry.url}/openapi.json", "--checks", ",".join(CHECKS)),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "30", "--continue-on-failure"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert registry.asking.get("/health") == {"status": "ok"}
