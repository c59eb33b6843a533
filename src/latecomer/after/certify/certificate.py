"""A certificate: a hash over the results at a watermark, which a recomputation from the log reproduces.

It says: at watermark W, after so many batches, the closed windows had exactly these numbers. Whoever has the log can
compute them again and get the same hash, or find that someone changed a table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.errors import NoStore, PipelineError, Problem, StoreError, StoreMismatch, other_settings
from latecomer.log.timeline.keeper import reached_watermark
from latecomer.model import types
from latecomer.model.aggregates import ORDERED, SKETCHED, TALLIED
from latecomer.model.counting import counted
from latecomer.model.durations import iso, to_micros
from latecomer.model.triggers import Count, Every
from latecomer.objects.small_files import small_text
from latecomer.store.definitions import definition_of
from latecomer.store.files import scratch
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = 1
TRIES = 5
_IN_ANY_ORDER = frozenset({"min", "max", "count"}) | TALLIED | ORDERED


@dataclass(frozen=True)
class Certificate:
    """The certified results, and the hash over them."""

    format: int
    pipeline: str
    output: str
    definition: Mapping[str, Any]
    watermark: str
    """The windows that end at or before it are certified."""
    batches: int
    """How many batches were complete. Later events do not count."""
    columns: Mapping[str, str]
    """The columns that are hashed, and their types."""
    excluded: Mapping[str, str]
    """Aggregates that are not hashed, and why."""
    rows: int
    sha256: str

    def written(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Checked:
    """The outcome of checking a certificate."""

    certificate: Certificate
    sha256: str
    """The hash over the results computed from the log."""
    rows: int
    stands: bool
    """Whether the store still has the certified results."""

    @property
    def reproduced(self) -> bool:
        return self.sha256 == self.certificate.sha256 and self.rows == self.certificate.rows


def certify(pipeline: Pipeline, output: str, at: datetime | None = None) -> Certificate:
    """Certify the results of the windows closed at a watermark, the present one by default."""
    rows, batches = _settled(pipeline, output)
    store = open_store(pipeline)
    reached = reached_watermark(store.watermarks, batches - 1)
    if reached is None:
        raise NoStore(
            f"store {store.root} has no watermark yet: no window has closed; run the pipeline first"
        )
    wanted = reached if at is None else to_micros(at)
    if wanted > reached:
        fix = f"leave it out, or name a moment up to {iso(reached)}"
        raise _refused("at", "is after the watermark: windows there are still open", iso(wanted), fix)
    return _certified(store, output, rows, wanted, batches)


def _settled(pipeline: Pipeline, output: str) -> tuple[pa.Table, int]:
    """The results after a whole number of batches, and that number."""
    for _ in range(TRIES):
        before, reader = open_store(pipeline).ledger.last_batch(), Reader(pipeline)
        rows = reader.results(output)
        panes = reader.book(output).tables.panes.last_batch()
        if open_store(pipeline).ledger.last_batch() == before and panes <= before:
            return rows, before + 1
    raise StoreError(
        f"a batch of store {pipeline.store_path} is under way, or was interrupted; certify when it is complete "
        "(the next run completes it)"
    )


def check(
    pipeline: Pipeline, output: str, certificate: Certificate, spark: SparkSession | None = None
) -> Checked:
    """Compute the certified results again from the log alone, with the stored verdicts, and compare.

    The whole log is taken as one batch where that must give the same numbers; batch by batch where they depend on when
    panes fired, or on a policy that has changed since.
    """
    from latecomer.after.replay.replaying import recompute

    _require_same(pipeline, output, certificate)
    store = open_store(pipeline)
    if store.ledger.last_batch() + 1 < certificate.batches:
        raise StoreMismatch(
            f"the certificate speaks of {counted(certificate.batches, 'batch')}, and store {store.root} has "
            f"{store.ledger.last_batch() + 1}; check it with the store that it was made from"
        )
    at = to_micros(datetime.fromisoformat(certificate.watermark))
    with scratch("latecomer-certificate-") as folder:
        last = certificate.batches - 1
        recomputed = recompute(
            pipeline, output, last, folder, one_shot=_at_once(store, output, last), spark=spark
        )
        by_log = _certified(store, output, Reader(recomputed).results(output), at, certificate.batches)
    now = _certified(store, output, Reader(pipeline).results(output), at, certificate.batches)
    return Checked(certificate, by_log.sha256, by_log.rows, now.sha256 == certificate.sha256)


def read_certificate(path: Path) -> Certificate:
    """A certificate from its file; an error names what is wrong with it."""
    try:
        written = json.loads(small_text(path))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise _refused("check", reason, str(path), "name a file that certify --to wrote") from None
    except (ValueError, RecursionError):
        raise _refused("check", "is not JSON", str(path), "name a file that certify --to wrote") from None
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        shown = written.get("format") if isinstance(written, dict) else written
        fix = f"this latecomer reads format {FORMAT}"
        raise _refused("format", "is not a certificate of a known format", shown, fix)
    fields = get_type_hints(Certificate)
    for name, kind in fields.items():
        if not isinstance(written.get(name), get_origin(kind) or kind) or isinstance(written[name], bool):
            fix = "restore the file as certify wrote it"
            raise _refused(name, "is missing or of another type", written.get(name), fix)
    try:
        datetime.fromisoformat(written["watermark"])
    except ValueError:
        raise _refused("watermark", "is not a moment", written["watermark"], "restore the file") from None
    return Certificate(**{name: written[name] for name in fields})


def _refused(field: str, message: str, value: object, fix: str) -> PipelineError:
    return PipelineError([Problem(field, message, value, fix, "certificate")])


def _require_same(pipeline: Pipeline, output: str, certificate: Certificate) -> None:
    """The certificate must be of this pipeline's output, as it is defined now."""
    for field, name in {"pipeline": pipeline.name, "output": output}.items():
        if getattr(certificate, field) != name:
            message = f"is not the one asked for ({name})"
            raise _refused(field, message, getattr(certificate, field), "name what was certified")
    if output not in pipeline.outputs:
        Reader(pipeline).results(output)  # its error names the outputs there are
    now = _as_json(definition_of(pipeline.outputs[output]))
    certified = certificate.definition
    changed = [key for key in now if key not in certified or now[key] != certified[key]]
    if changed:
        message = f"says {other_settings(changed)} than the pipeline file"
        raise _refused("definition", message, output, "check it with the file that it was made with")


def _at_once(store: Store, output: str, last: int) -> bool:
    """Whether the whole log as one batch must give the numbers that stand after `last`."""
    policies = [under for since, under in store.policies(output) if since <= last]
    rules = store.pipeline.outputs[output]
    waits = isinstance(rules.trigger.late, Every | Count) or rules.trigger.early is not None
    plain = not waits and not rules.emit_empty and not Rebuilds(store.root, output).published(last)
    return len(policies) == 1 and plain


def _certified(store: Store, output: str, rows: pa.Table, at: int, batches: int) -> Certificate:
    layout = PaneLayout(store.pipeline.outputs[output], store.layout)
    excluded = _excluded(layout)
    place = ["window_start", "window_end", *layout.keys]
    names = [*place, *(name for name in layout.values if name not in excluded)]
    closed = pc.less_equal(rows["window_end"], pa.scalar(at, TIMESTAMP))
    chosen = rows.filter(closed).select(names).sort_by([(name, "ascending") for name in place])
    head = {
        "format": FORMAT,
        "output": output,
        "definition": _as_json(definition_of(layout.output)),
        "watermark": iso(at),
        "columns": {name: str(chosen.schema.field(name).type) for name in names},
    }
    digest = hashlib.sha256(_line(head))
    for batch in chosen.to_batches(max_chunksize=10_000):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            digest.update(_line([canonical(value) for value in values]))
    return Certificate(
        FORMAT,
        store.pipeline.name,
        output,
        head["definition"],  # type: ignore[arg-type]
        iso(at) or "",
        batches,
        head["columns"],  # type: ignore[arg-type]
        excluded,
        chosen.num_rows,
        digest.hexdigest(),
    )


def _excluded(layout: PaneLayout) -> dict[str, str]:
    """The aggregates whose last digits depend on the order in which events were added."""
    excluded = {}
    for name, each in layout.output.aggregates.items():
        kind = layout.types.get(each.column or "", "bigint")
        if each.function in SKETCHED:
            excluded[name] = "an approximation"
        elif kind in types.FLOATS and each.function not in _IN_ANY_ORDER:
            excluded[name] = "floating point: the sum depends on the order of events"
    return excluded


def _line(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")) + "\n").encode()


def canonical(value: object) -> str | None:
    """The one way to write a value under a hash.

    It is older than `latecomer.model.written_values` and differs from it. It must stay: else every certificate that was
    ever issued would be refuted. Values have no type here; the line before the rows has the types.

    >>> canonical(Decimal("1E+2")), canonical(True), canonical(0.1), canonical(b"a")
    ('100', 'true', '0.1', '61')
    """
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value + 0.0)  # there is one zero
        case datetime():
            return iso(to_micros(value))
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
    return str(value)


def _as_json(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition as JSON has it: lists, not tuples."""
    return dict(json.loads(json.dumps(definition)))
