#!/usr/bin/env bash
# Re-resolves both lock files. Needs `uv`; run it after changing pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() {
  uv pip compile pyproject.toml --group build "$@" --constraint requirements/constraints.txt \
    --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet
}
lock --output-file requirements/run.txt
lock --group dev --extra postgres --extra kafka --extra protobuf --extra registry --extra duckdb --extra iceberg --extra hdfs --output-file requirements/dev.txt
