"""Errors of a Kafka client whose security settings do not match the broker's: somebody has to correct them."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_PROBE_SECONDS = 2.0
_PLAIN = ("plaintext", "sasl_plaintext")


class Refusal(NamedTuple):
    """What is wrong, and the fix."""

    reason: str
    fix: str
    lasting: bool = True
    """Whether it is certain. If not, a broker that is shutting down may look the same."""


_UNENCRYPTED = Refusal(
    "the broker does not encrypt on this port",
    "name a port in servers that is encrypted, or leave security.protocol out",
)
_BY_TEXT = {
    r"certificate verify failed": Refusal(
        "the broker's certificate is not of an authority that is trusted here, or is for another name",
        "name the authority in ssl.ca.location, and the broker in servers as its certificate does",
    ),
    r"wrong version number": _UNENCRYPTED,
    r"PLAINTEXT broker listener": _UNENCRYPTED._replace(lasting=False),
    r"alert (bad certificate|certificate|unknown ca|handshake failure)": Refusal(
        "the broker asks for a certificate of the client, or refuses the one that it was given",
        "name one that it trusts in ssl.certificate.location, and its key in ssl.key.location",
    ),
}
"""By patterns for the client's own text."""


def refusal_of(settings: Mapping[str, Any], errors: Iterable[Any]) -> Refusal | None:
    """What is wrong with the security settings, if the errors come from these; `settings` are the client's."""
    from confluent_kafka import KafkaError

    present = [error for error in errors if error is not None]
    for pattern, refusal in _BY_TEXT.items():
        if any(re.search(pattern, error.str()) for error in present):
            return refusal
    silent = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
    if any(
        error.code() not in silent or "://" in error.str() or "Connect to" in error.str() for error in present
    ):
        return None
    if str(settings.get("security.protocol", "plaintext")).lower() not in _PLAIN:
        return None
    if not any(map(_encrypts, str(settings["bootstrap.servers"]).split(","))):
        return None
    return Refusal(
        "the broker encrypts on this port, and the client was not told so",
        "write security.protocol: SSL in options, or SASL_SSL where it asks for a password",
    )


def _encrypts(server: str) -> bool:
    """Whether a server speaks TLS: a broker that does leaves a client without TLS without any answer."""
    context = ssl.create_default_context()
    # No data is sent: its name does not matter.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        place = urlsplit(server.strip() if "://" in server else f"//{server.strip()}")
        address = (place.hostname or "", place.port or 9092)
        with socket.create_connection(address, _PROBE_SECONDS) as raw, context.wrap_socket(raw):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except (OSError, ValueError):
        return False
