"""The Spark session that latecomer starts."""

from __future__ import annotations

import ipaddress

import psutil
import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.spark.session import own_session


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


def test_java_classes_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session, asked = own_session(spark), list[str]()
    look_up = JVMView.__getattr__

    def counted(jvm: JVMView, name: str) -> object:
        asked.append(name)
        return look_up(jvm, name)

    monkeypatch.setattr(JVMView, "__getattr__", counted)
    session.range(3).select(F.col("id"), F.expr("id + 1 as more")).groupBy("more").agg(F.max("id")).toArrow()
    assert asked == []


def test_the_tests_session_has_forgotten_about_other_storage(spark: SparkSession) -> None:
    """Otherwise every test pays for it."""
    state = own_session(spark)._jsparkSession.sessionState()
    names = set(map(str, state.newHadoopConf().getPropsWithPrefix("").keySet()))
    assert not {name for name in names if name.startswith(("yarn.", "fs.s3a.", "ipc."))}
    assert "mapreduce.fileoutputcommitter.algorithm.version" in names
