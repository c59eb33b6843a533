"""The refusals of the registry: Confluent's error code, which begins with an HTTP status, and a message.

A message begins with Confluent's words, since some clients look for them. The fix follows.
"""

from __future__ import annotations

import json

from latecomer.errors import RegistryError

NO_SUBJECT, NO_VERSION, NO_SCHEMA, NO_LEVEL, NO_MODE = 40401, 40402, 40403, 40408, 40409
"""Confluent's codes that clients look for."""


class Refused(RegistryError):
    """A request that is refused. The status is that of the code, unless it is given."""

    def __init__(self, code: int, message: str, *, status: int | None = None) -> None:
        self.status = int(str(code)[:3]) if status is None else status
        super().__init__(message, code)

    def body(self) -> bytes:
        return json.dumps({"error_code": self.code, "message": str(self)}, separators=(",", ":")).encode()


def unusable(message: str) -> Refused:
    """A request of a wrong form."""
    return Refused(422, message)


# 404


def subject_not_found(subject: str) -> Refused:
    return Refused(NO_SUBJECT, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> Refused:
    return Refused(NO_VERSION, f"Version {version} not found.")


def schema_not_found(number: object = None) -> Refused:
    return Refused(NO_SCHEMA, "Schema not found" if number is None else f"Schema {number} not found")


def deleted(subject: str, version: int | None = None) -> Refused:
    code, what = (40404, "") if version is None else (40406, f" Version {version}")
    return Refused(
        code, f"Subject '{subject}'{what} was soft deleted. Set permanent=true to delete permanently."
    )


def not_deleted(subject: str, version: int | None = None) -> Refused:
    code, what, why = (
        (40405, "", ": it has versions") if version is None else (40407, f" Version {version}", "")
    )
    return Refused(
        code, f"Subject '{subject}'{what} was not deleted first before being permanently deleted{why}."
    )


def not_set(subject: str, code: int, setting: str, short: str) -> Refused:
    """A subject without a setting of its own."""
    return Refused(
        code,
        f"Subject '{subject}' does not have subject-level {setting} configured. Send defaultToGlobal=true for the "
        f"{short} in force.",
    )


# 422


def invalid_schema(message: str) -> Refused:
    return Refused(42201, f"Invalid schema: {message}")


def empty_schema() -> Refused:
    return invalid_schema('there is none; write it as text: {"schema": "{\\"type\\": …}"}')


def not_the_next_version(asked: int, following: int) -> Refused:
    return Refused(
        42201,
        f"Version is not one more than previous version: {asked} was asked for, and the next is {following}. Somebody "
        "else may have registered one before; read the latest version, or leave version out.",
    )


def invalid_rules(message: str) -> Refused:
    return Refused(42210, f"Invalid ruleset: {message}")


def invalid_version(written: str) -> Refused:
    return Refused(
        42202,
        f"The specified version {written[:60]!r} is not a valid version id. Write a whole number from 1 to 2147483647, "
        "latest, or -1 for the latest.",
    )


def invalid_level(message: str) -> Refused:
    return Refused(42203, f"Invalid compatibility level: {message}")


def invalid_policy(message: str) -> Refused:
    return Refused(42203, f"Invalid compatibility policy: {message}")


def invalid_mode(message: str) -> Refused:
    return Refused(42204, f"Invalid mode: {message}")


def not_permitted(message: str) -> Refused:
    return Refused(42205, message)


def referenced(subject: str, version: int, by: list[int]) -> Refused:
    ids = ", ".join(map(str, by[:10])) + (f" and {len(by) - 10} more" if len(by) > 10 else "")
    return Refused(
        42206,
        f"One or more references exist to the schema of '{subject}' Version {version}: those with the ids {ids}. "
        "Delete those first.",
    )


def invalid_subject(message: str) -> Refused:
    return Refused(42208, message)
