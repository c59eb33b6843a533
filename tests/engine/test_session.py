"""The Spark session that latecomer starts."""

from __future__ import annotations

import ipaddress

import psutil
import pytest


@pytest.mark.usefixtures("spark")
def test_spark_listens_on_loopback_alone() -> None:
    java = [child for child in psutil.Process().children(recursive=True) if "java" in child.name()]
    ports = [
        found.laddr.ip
        for process in java
        for found in process.net_connections(kind="inet")
        if found.status == psutil.CONN_LISTEN
    ]
    assert len(ports) >= 2, "the driver and its blocks have a port each"
    assert [ip for ip in ports if not _of_loopback(ip)] == []


def _of_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
