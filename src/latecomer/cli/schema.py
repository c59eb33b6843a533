"""`latecomer schema`: the pipeline file's JSON Schema, for editors."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors that complete and check YAML."""
    from latecomer.config.jsonschema import pipeline_schema

    typer.echo(json.dumps(pipeline_schema(), indent=2))
