"""Hosts: which of them is this machine, and why a port of one cannot be served."""

from __future__ import annotations

import errno
import ipaddress
import re

_OWN_NAME = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_name(host: str) -> bool:
    """Whether the Host of a request is a loopback name. Another name that resolves to this machine may be that of a
    hostile web page.

    >>> is_own_name("localhost:9464"), is_own_name("[::1]"), is_own_name("evil.example")
    (True, True, False)
    """
    return _OWN_NAME.fullmatch(host) is not None


def bind_problem(
    error: OSError | UnicodeError, host: str, port: int, port_option: str, address_option: str
) -> str:
    """Why a host's port could not be bound, and which option to correct."""
    if isinstance(error, UnicodeError):  # a label of it is empty, or longer than 63 characters
        return f"{host} is not the name of a host; correct {address_option}"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use by another program; stop it, or give another port with {port_option}"
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user; give one above 1023 with {port_option}"
    return f"{host} port {port} cannot be served ({error.strerror or error}); correct {address_option}"
