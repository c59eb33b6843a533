"""The refusals of the registry: Confluent's error code, which begins with an HTTP status, and a message.

A message begins with Confluent's words, since some clients look for them. The fix follows.
"""

from __future__ import annotations

from latecomer.errors import RegistryError

NO_SUBJECT, NO_VERSION, NO_SCHEMA, NO_LEVEL = 40401, 40402, 40403, 40408
"""Confluent's codes that clients look for."""


class Refused(RegistryError):
    """A request that is refused. The status is that of the code, unless it is given."""

    def __init__(self, code: int, message: str, *, status: int | None = None) -> None:
        self.status = int(str(code)[:3]) if status is None else status
        super().__init__(message, code)


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


def subject_deleted(subject: str) -> Refused:
    return Refused(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently.")


def subject_not_deleted(subject: str) -> Refused:
    return Refused(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted: it has versions."
    )


def version_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently.",
    )


def version_not_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted.",
    )


def no_level(subject: str) -> Refused:
    return Refused(
        NO_LEVEL,
        f"Subject '{subject}' does not have subject-level compatibility configured. Send defaultToGlobal=true for the "
        "level in force.",
    )


def no_mode(subject: str) -> Refused:
    return Refused(
        40409,
        f"Subject '{subject}' does not have subject-level mode configured. Send defaultToGlobal=true for the mode in "
        "force.",
    )


def no_migration(name: str) -> Refused:
    return Refused(40450, f"Migration '{name}' has not begun; advance it into expand first.")


# 409 and 422


def incompatible(message: str) -> Refused:
    return Refused(409, message)


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


def id_taken(number: int) -> Refused:
    return not_permitted(
        f"Overwrite new schema with id {number} is not permitted: it is the id of another schema here."
    )


def invalid_subject(message: str) -> Refused:
    return Refused(42208, message)


def too_large(message: str) -> Refused:
    return Refused(413, message)
