"""The two worked examples, for the tests of every layer."""

from __future__ import annotations

import json
from typing import Any

from latecomer.model.durations import DAY
from latecomer.schemas.migrations import Migration

NOW = 1_790_000_000_000_000
HOUR = DAY // 24


def avro(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A record: each field is a name, a type, and perhaps a default."""
    made = [
        {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})}
        for each in fields
    ]
    return {"type": "record", "name": name, "fields": made}


PRICING = avro("Pricing", ("base", "long"), ("surge", "long"), ("tax", "long"))
RIDE = avro("Ride", ("ride_id", "string"), ("fare_cents", "long"))
USER = avro("User", ("user_id", "long"), ("signup_date", "string"))


def pricing(**more: Any) -> dict[str, Any]:
    """fare_cents → pricing{base, surge, tax}, as a file has it."""
    return {
        "migration": "fare-cents",
        "subject": "rides-value",
        "owner": "fares@rides.example",
        "from": {"fare_cents": "pricing.base + pricing.surge + pricing.tax"},
        "to": {"pricing": {"type": PRICING}},
        "consumers": {
            "billing": {"reader": RIDE, "owner": "billing@rides.example"},
            "dashboard": {
                "reader": avro("Ride", ("ride_id", "string"), ("pricing", ["null", PRICING], None))
            },
        },
        "soak": {"expand": "1d", "dual_write": "7d", "migrate": "14d"},
        "drift_limit": "0.1%",
        **more,
    }


def rename(**more: Any) -> dict[str, Any]:
    """signup_date → created_at, as a file has it."""
    return {
        "migration": "signup-date",
        "subject": "users-value",
        "owner": "growth@shop.example",
        "from": {"signup_date": "left(created_at, 10)"},
        "to": {"created_at": {"type": "string", "sql": "concat(signup_date, 'T00:00:00Z')"}},
        "consumers": {"crm": {"reader": USER}},
        **more,
    }


def made(document: dict[str, Any]) -> Migration:
    return Migration.model_validate(document)


def text(schema: Any) -> str:
    return json.dumps(schema)
