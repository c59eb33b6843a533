"""Opens object stores, and says in words what is wrong with one that does not answer.

The driver and each task read credentials in a file themselves: credentials are never sent.
"""

from __future__ import annotations

import configparser
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from obstore.store import ObjectStore, from_url

from latecomer.errors import StoreError, StoreOutage, first_line
from latecomer.errors.redacting import conceal, without_secrets
from latecomer.objects.hdfs import DISCONNECTED, HdfsStore
from latecomer.objects.locations import Storage, Url
from latecomer.objects.small_files import named_file, small_text

S3 = ("s3", "s3a")
Store: TypeAlias = ObjectStore | HdfsStore
_Made = TypeVar("_Made")
_REREAD = timedelta(minutes=5)
"""How often credentials in a file are read anew: somebody may renew them."""
RETRIES: Any = {
    "max_retries": 10,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
}


def first_wait() -> float:
    """The least seconds before the library retries: an answer that comes sooner was to the first request."""
    return float(RETRIES["backoff"]["init_backoff"].total_seconds())


def opened_store(scheme: str, bucket: str, options: Storage) -> Store:
    """A client for a bucket. It has not sent a request yet."""
    if scheme == "hdfs":
        return HdfsStore(bucket)
    client: Any = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}
    if options.allow_http:
        client["allow_http"] = True
    config: dict[str, Any] = {**_named_settings(scheme, options)}
    has_keys = scheme in S3 and keys_in_file(options) is not None
    if scheme in S3 and options.endpoint:
        config["aws_virtual_hosted_style_request"] = False
    return from_url(  # type: ignore[call-overload, no-any-return]
        f"{'s3' if scheme in S3 else scheme}://{bucket}",
        config=config,
        client_options=client,
        retry_config=RETRIES,
        credential_provider=partial(_fresh_keys, options) if has_keys else None,
    )


def _named_settings(scheme: str, options: Storage) -> dict[str, str]:
    """The settings that say where a bucket is, and who asks: delta-rs and obstore give them the same names."""
    if scheme in S3:
        settings = {"aws_region": options.region, "aws_endpoint": options.endpoint}
    elif scheme == "gs":
        settings = {"google_service_account": options.credentials}
    else:
        settings = {"azure_storage_endpoint": options.endpoint}
    return {name: value for name, value in settings.items() if value}


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


def _fresh_keys(options: Storage) -> Mapping[str, Any]:
    """The keys in a file. They expire after a while, so that the file is read again."""
    keys = keys_in_file(options)
    if keys is None:
        raise StoreError("the file of credentials is not there any more")
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "token": keys.token,
        "expires_at": datetime.now(UTC) + _REREAD,
    }


def rust_options(place: Url, options: Storage) -> dict[str, str]:
    """The options that delta-rs needs for a location. They hold secrets: never print them."""
    if place.scheme == "hdfs":  # delta-rs finds what Hadoop's own settings say
        return {}
    settings = {
        "timeout": "60s",
        "connect_timeout": "5s",
        "max_retries": str(RETRIES["max_retries"]),
        "retry_timeout": f"{RETRIES['retry_timeout'].seconds}s",
    }
    if options.allow_http:
        settings["allow_http"] = "true"
    settings |= _named_settings(place.scheme, options)
    if place.scheme in S3:
        settings["conditional_put"] = "etag"
        keys = keys_in_file(options)
        secret = {
            "aws_access_key_id": keys and keys.access_key,
            "aws_secret_access_key": keys and keys.secret_key,
            "aws_session_token": keys and keys.token,
        }
        settings |= {name: value for name, value in secret.items() if value}
    return settings


_BROKEN_OFF = (
    "request or response body error",
    "error decoding response body",
    "end of file before message length",
    DISCONNECTED,
)
_WRONG = (
    (("NoSuchBucket", "ContainerNotFound"), "there is no such bucket", "make it, or mend the URL", False),
    (
        ("ExpiredToken", "TokenRefreshRequired", "RequestExpired"),
        "the credentials have expired",
        "renew them",
        False,
    ),
    (
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "Unauthorized",
            "AuthenticationFailed",
        ),
        "the credentials are not accepted",
        "check them, and the region and endpoint",
        False,
    ),
    (
        ("AccessDenied", "Forbidden", "AuthorizationPermissionMismatch", "AccessControlException"),
        "access is denied",
        "let these credentials list, read, write and delete there",
        False,
    ),
    (
        ("SlowDown", "503 Service", "429 Too", "ServerBusy", "TooManyRequests"),
        "it is throttling",
        "ask its operator, or slow down",
        True,
    ),
    (
        ("No NameNode hosts found",),
        "its name service is not known",
        "set HADOOP_CONF_DIR to the folder with hdfs-site.xml, or name the NameNode with its port",
        False,
    ),
    (("SafeModeException",), "it is in safe mode", "wait until it has left it", True),
    (("QuotaExceededException",), "its quota is used up", "have it raised, or make room", False),
    (
        ("GSSAPI", "gssapi", "SASL"),
        "Kerberos does not let this user in",
        "get a ticket (kinit)",
        False,
    ),
    (
        ("dns error", "failed to lookup address", "Name or service not known"),
        "its address is not known",
        "check the endpoint and the network",
        True,
    ),
    (
        ("169.254.169.254", "credential provider", "InstanceCredential", "metadata"),
        "no credentials were found",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file in storage.credentials",
        False,
    ),
    (
        ("error sending request", "onnection", "timed out", "timeout", *_BROKEN_OFF),
        "it does not answer",
        "check the endpoint and the network",
        True,
    ),
    (("500 Internal", "502 Bad", "504 Gateway"), "it reports an error of its own", "look at its logs", True),
)
"""Texts in an error of the library → what is wrong, its fix, and whether it may pass."""
_AFTER = re.compile(r", after (\d+) retries")


def in_words(text: str) -> tuple[str, bool] | None:
    """What a library's error says is wrong with an object store, and the fix; and whether it may pass."""
    for words, reason, fix, passes in _WRONG:
        if any(word in text for word in words):
            tried = _AFTER.search(text)
            tries = f" (tried {int(tried[1]) + 1} times)" if tried and tried[1] != "0" else ""
            return f"{reason}{tries}; {fix}", passes
    return None


class BrokenOff(StoreOutage):
    """An answer broke off in the middle. The library does not retry that."""


_WAITS = (0.1, 0.4, 1.6, 6.4)
"""Seconds before each retry of ours."""


def retry_broken_off(work: Callable[[], _Made]) -> _Made:
    """The result of `work`, which can safely be done twice: it is retried where an answer breaks off."""
    for wait in _WAITS:
        try:
            return work()
        except BrokenOff:
            time.sleep(wait)
    return work()


def what_is_wrong(place: Url, error: Exception) -> StoreError:
    """Our own error for one of the library's."""
    if any(words in str(error) for words in _BROKEN_OFF):
        return BrokenOff(f"{place} cannot be used: its answers break off; check the endpoint and the network")
    reason = in_words(str(error))
    if reason is None:
        return StoreError(f"{place} cannot be used ({without_secrets(first_line(error))})")
    return (StoreOutage if reason[1] else StoreError)(f"{place} cannot be used: {reason[0]}")
