"""The Avro library for Java, which is among Spark's jars: what it makes of schemas."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError


@dataclass(frozen=True)
class Verdict:
    """`found` is none where Java fails with an exception."""

    found: frozenset[tuple[str, str]] | None
    exception: str = ""


class JavaAvro:
    """Its names are strict, as those of the specification; its own default takes letters of all alphabets."""

    def __init__(self, jvm: Any) -> None:
        self.avro = jvm.org.apache.avro
        self.strict = self.avro.NameValidator.STRICT_VALIDATOR

    def parse(self, schema: Any) -> Any:
        """Its schema, or none where it refuses."""
        return self.parse_text(json.dumps(schema))

    def parse_text(self, text: str) -> Any:
        try:
            return self.avro.Schema.Parser(self.strict).parse(text)
        except Py4JJavaError:
            return None

    def canonical_form(self, schema: Any) -> str:
        return self.avro.SchemaNormalization.toParsingForm(schema)

    def compare(self, reader: Any, writer: Any) -> Verdict:
        """Rules and locations of what keeps a reader from reading what a writer wrote."""
        try:
            result = self.avro.SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult()
        except Py4JJavaError as error:
            return Verdict(None, str(error.java_exception.getMessage()))
        if result.getCompatibility().name() == "COMPATIBLE":
            return Verdict(frozenset())
        found = result.getIncompatibilities()
        return Verdict(frozenset((each.getType().name(), each.getLocation()) for each in found))

    def read(self, reader: Any, writer: Any, data: bytes, times: int) -> str:
        """What keeps it from reading so many pieces of data: nothing, or an exception."""
        decoder = self.avro.io.DecoderFactory.get().binaryDecoder(data, None)
        try:
            datum_reader = self.avro.generic.GenericDatumReader(writer, reader)
            for _ in range(times):
                datum_reader.read(None, decoder)
        except Py4JJavaError as error:
            return str(error.java_exception.toString())
        return ""
