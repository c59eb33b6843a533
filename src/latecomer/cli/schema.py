"""`latecomer schema`: the JSON Schema of pipeline files, for editors; or the columns that a source has, as YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def schema(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A pipeline file, for the columns of its source.")
    ] = None,
) -> None:
    """Print the JSON Schema of the pipeline file, for editors that complete and check YAML.

    With FILE, print the columns of its source as YAML, to be declared there.
    """
    from latecomer.config.jsonschema import pipeline_schema

    if file is None:
        typer.echo(json.dumps(pipeline_schema(), indent=2))
        return
    import yaml

    from latecomer.config.load import load_pipeline
    from latecomer.store.source_columns import source_columns

    pipeline = load_pipeline(file)
    columns = source_columns(pipeline, file)
    found = {name: {"schema": dict(columns.read_from(name))} for name in pipeline.views}
    shown = {"sources": found} if pipeline.sources else {"source": found[""]}
    typer.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=1000), nl=False)
