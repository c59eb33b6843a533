"""The settings of a Kafka client as Java's clients, and so Spark's connector, name them.

A pipeline file names them as librdkafka does. Most are the same; files in PEM and passwords are not.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path

from latecomer.errors import SourceError

_SAME = frozenset({"bootstrap.servers", "security.protocol", "client.id", "client.rack"})
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""The name of that scheme, as it stands in a key."""
_DRIVER_ALONE = frozenset({"socket.timeout.ms", "log_level", "debug"})
"""What only the client that asks how far topics reach has."""


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's connector.

    >>> java_settings({"bootstrap.servers": "db:9092"})
    {'kafka.bootstrap.servers': 'db:9092', 'kafka.isolation.level': 'read_committed'}
    """
    made = {name: value for name, value in settings.items() if name in _SAME}
    rest = {k: v for k, v in settings.items() if k not in _SAME and k not in _DRIVER_ALONE}
    made |= _login(rest)
    made |= _certificates(rest)
    if rest.pop("enable.ssl.certificate.verification", "true") == "false":
        raise SourceError(
            "kafka source: enable.ssl.certificate.verification cannot be switched off for Spark's connector; name the "
            "authority in ssl.ca.location"
        )
    if rest.pop("ssl.endpoint.identification.algorithm", "https") == "none":
        made["ssl.endpoint.identification.algorithm"] = ""
    made |= {name.removeprefix("java."): value for name, value in rest.items() if name.startswith("java.")}
    for name in rest:
        if not name.startswith("java."):
            raise SourceError(
                f"kafka source: source.kafka.options.{name} has no counterpart in Spark's connector; leave it out, or "
                f"write java.{name} for an option of Java's client alone"
            )
    made["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in made.items()}


def _login(rest: dict[str, str]) -> dict[str, str]:
    mechanism = rest.pop("sasl.mechanism", None) or rest.pop("sasl.mechanisms", None)
    user, password = rest.pop("sasl.username", None), rest.pop("sasl.password", None)
    if mechanism is None:
        return {}
    if mechanism not in _LOGINS:
        raise SourceError(
            f"kafka source: sasl.mechanism {mechanism} is not known here; use {', '.join(_LOGINS)}, or options of "
            "Java's client alone as java.sasl.jaas.config"
        )
    words = f"username={_quoted(user)} password={_quoted(password)}"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_LOGINS[mechanism]} required {words};"}


def _quoted(value: str | None) -> str:
    escaped = (value or "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _certificates(rest: dict[str, str]) -> dict[str, str]:
    made: dict[str, str] = {}
    if (authority := rest.pop("ssl.ca.location", None)) is not None:
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(authority)}
    certificate, key = rest.pop("ssl.certificate.location", None), rest.pop("ssl.key.location", None)
    if certificate is not None and key is not None:
        made |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _pem(certificate),
            "ssl.keystore.key": _key(key),
        }
    if (password := rest.pop("ssl.key.password", None)) is not None:
        made["ssl.key.password"] = password
    return made


def _key(path: str) -> str:
    text = _pem(path)
    if re.search(r"-----BEGIN (RSA|EC|DSA) PRIVATE KEY-----", text):
        raise _unread_key(path, "is not in PKCS #8", "openssl pkcs8 -topk8 -in KEY -out NEW")
    locked = re.search(r"-----BEGIN ENCRYPTED PRIVATE KEY-----([^-]*)-----END", text)
    if locked is not None and _PBES2 in _decoded(locked[1])[:64]:
        fix = "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in KEY -out NEW"
        raise _unread_key(path, "is locked by PBES2, as openssl does it unless told otherwise", fix)
    return text


def _unread_key(path: str, what: str, command: str) -> SourceError:
    return SourceError(
        f"kafka source: the key {path} {what}, which Java's Kafka client cannot read; write it anew: {command}"
    )


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode(body)
    except ValueError:  # whoever reads it says so
        return b""


def _pem(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SourceError(
            f"kafka source: {path} cannot be read ({getattr(error, 'strerror', None) or 'it is no text'}); name a file "
            "in PEM"
        ) from None
