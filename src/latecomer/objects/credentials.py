"""Credentials of S3 in a file. The driver and each task read the file themselves: credentials are never sent."""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.errors.redacting import conceal
from latecomer.objects.locations import Storage
from latecomer.objects.small_files import named_file, small_text


@dataclass(frozen=True)
class Keys:
    """Credentials of S3. They are not printed."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def keys_in_file(options: Storage) -> Keys | None:
    """The keys in the file and profile that the options name, else in the user's own file. None where the environment
    has keys, or the user has no such file: then the platform's own chain is used."""
    is_named = options.credentials or options.profile
    if not is_named and "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    written = options.credentials or os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    profile = options.profile or os.environ.get("AWS_PROFILE", "default")
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(small_text(named_file(written, Path())))
        section = parser[profile]
        return Keys(
            access_key=section["aws_access_key_id"],
            secret_key=conceal(section["aws_secret_access_key"]),
            token=section.get("aws_session_token"),
        )
    except (OSError, configparser.Error, KeyError) as error:
        if not is_named:
            return None
        raise NoCredentials(written, profile, error) from None


class NoCredentials(OSError):
    """A file of credentials cannot be used."""

    def __init__(self, file: str, profile: str, error: Exception) -> None:
        what = "cannot be read"
        if isinstance(error, KeyError):
            what = f"has no profile {profile} with aws_access_key_id and aws_secret_access_key"
        super().__init__(f"{file} {what}; mend the file, or name another in storage.credentials")
