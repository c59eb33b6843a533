"""How deep Avro data is, found in Spark's own processes without recursion (ADR 0071).

`AvroDepth.java` is compiled once in a JVM, by the compiler that Spark has for its own queries. Executors get a jar.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

_NAME = "latecomer.AvroDepth"
_COMPILED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""The class, by the Spark that has its jar."""


def is_shallow(spark: SparkSession, data: Column, schema: str, most: int) -> Column:
    """Whether data is a whole record of a schema, with so many records in one another at most."""
    return Column(depth_check(spark.sparkContext, schema, most).of(data._jc))


def depth_check(context: SparkContext, schema: str, most: int) -> Any:
    """An `AvroDepth`, in Java."""
    if context not in _COMPILED:
        _COMPILED[context] = _compiled(context)
    gateway: Any = context._gateway
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 2)
    arguments[0], arguments[1] = schema, most
    return _COMPILED[context].getConstructors()[0].newInstance(arguments)


def _compiled(context: SparkContext) -> Any:
    java: Any = context._jvm
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("AvroDepth.java").read_text(encoding="utf-8"))
    context._jsc.addJar(str(_jar(compiler.getBytecodes())))
    return compiler.getClassLoader().loadClass(_NAME)


def _jar(classes: Mapping[str, bytes]) -> Path:
    """A jar in a folder of this process alone, with which it goes."""
    folder = tempfile.mkdtemp(prefix="latecomer-classes-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    jar = Path(folder, "latecomer-avro-depth.jar")
    with zipfile.ZipFile(jar, "w") as opened:
        for name, code in classes.items():
            opened.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    return jar
