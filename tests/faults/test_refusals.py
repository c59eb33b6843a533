"""What the operating system refuses is told alike, whoever was refused: Python, Arrow, delta-rs, SQLite or Java."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from faults.disk_kit import SmallDisk, small_disk
from latecomer.errors import StoreError
from latecomer.errors.system import fullest, refusal_of, refused, refused_sentence
from latecomer.store.delta.table import Table
from latecomer.store.files import replace_text, require_room
from latecomer.store.holding.lock import exclusive

SCHEMA = pa.schema([("batch", pa.int64())])


@pytest.mark.parametrize(
    ("outcome", "number"),
    [
        (
            "Generic LocalFileSystem error\n ↳ Unable to copy data to file\n ↳ No space left on device (os error 28)",
            28,
        ),
        ("IOException: No space left on device", errno.ENOSPC),
        ("FileNotFoundException: /store/x (Too many open files)", errno.EMFILE),
        ("FileSystemException: /store/x: Read-only file system", errno.EROFS),
        ("AccessDeniedException: /store/x", errno.EACCES),
        ("IOException: Disk quota exceeded", errno.EDQUOT),
        (
            OSError(errno.EIO, "Error reading bytes from file. Detail: [errno 5] Input/output error"),
            errno.EIO,
        ),
        ("IOException: incorrect header check", None),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), None),
    ],
)
def test_a_refusal_is_known_in_every_shape(outcome: str | OSError, number: int | None) -> None:
    found = refusal_of(outcome)
    assert (None if found is None else found.number) == number


def test_the_place_is_the_one_that_the_error_names(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/store/pipeline.json")
    assert refused_sentence(full, [tmp_path]) == (
        "the disk is full: /store/pipeline.json; make room there, and run again. "
        "Nothing is lost: the next run continues where this one stopped"
    )
    for outcome in (
        "FileNotFoundException: /my store/part.parquet (Permission denied)",
        "FileSystemException: /my store/part.parquet: Permission denied",
        "Unable to open file /my store/part.parquet#1\n ↳ Permission denied (os error 13)",
        "AccessDeniedException: /my store/part.parquet",
    ):
        assert "permission is denied: /my store/part.parquet; give" in str(
            refused_sentence(outcome, [tmp_path])
        )
    assert refused_sentence("RuntimeException: something else", [tmp_path]) is None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", 1) as mounted:
        yield mounted


def test_the_place_is_the_fullest_where_none_is_named(disk: SmallDisk, tmp_path: Path) -> None:
    roomy = tmp_path / "roomy"
    disk.fill()
    assert fullest([roomy, disk.root / "store"]) == disk.root / "store"
    outcome = refused_sentence("IOException: No space left on device", [roomy, disk.root / "store"])
    assert outcome is not None
    assert outcome.startswith(f"the disk is full: {disk.root}/store; make room there")
    assert [(place, why.number) for place, why in refused([roomy, disk.root])] == [(disk.root, errno.ENOSPC)]


def appended(root: Path) -> None:
    Table(root / "made", SCHEMA).append(7, pa.table({"batch": [7]}))


def committed(root: Path) -> None:
    table = Table(root / "made", SCHEMA)
    table.commit(8, [], remove=table.files())


def held(root: Path) -> None:
    with exclusive(root / "new"):
        pass


STEPS: list[Callable[[Path], None]] = [appended, committed, held]
"""What writes to a store without Spark."""


def test_a_table_on_a_full_disk_is_whole_once_there_is_room(disk: SmallDisk) -> None:
    Table(disk.root / "made", SCHEMA).append(0, pa.table({"batch": [0]}))
    disk.fill()
    for step in STEPS:
        full = rf"{disk.root}.* cannot be (used|written): the disk is full; make room there"
        with pytest.raises(StoreError, match=full):
            step(disk.root)
    with pytest.raises(OSError, match=rf"No space left on device: '{disk.root}/.pins'"):
        replace_text(disk.root / "pins", "x" * 10_000)
    with pytest.raises(OSError, match=f"No space left on device: '{disk.root}'"):
        require_room(disk.root, 100_000)
    disk.make_room()
    assert Table(disk.root / "made", SCHEMA).last_batch() == 0
    for step in STEPS:
        step(disk.root)
    assert Table(disk.root / "made", SCHEMA).last_batch() == 8


def test_a_disk_that_was_mounted_read_only(disk: SmallDisk) -> None:
    Table(disk.root / "made", SCHEMA).append(0, pa.table({"batch": [0]}))
    disk.remount("ro")
    for step in STEPS:
        with pytest.raises(
            StoreError,
            match=r"the file system can only be read.*; check the disk.*, then mount it for writing again",
        ):
            step(disk.root)
    assert Table(disk.root / "made", SCHEMA).last_batch() == 0
    disk.remount("rw")
    for step in STEPS:
        step(disk.root)


NO_FILES = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from latecomer.errors import LatecomerError
from latecomer.store.holding.lock import exclusive
from latecomer.store.delta.table import Table
root, schema = Path(sys.argv[1]), pa.schema([("batch", pa.int64())])
table = Table(root, schema)
table.append(0, pa.table({"batch": [0]}))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(open("/dev/null"))
except OSError:
    pass
def hold():
    with exclusive(root):
        pass
for step in (lambda: table.append(1, pa.table({"batch": [1]})), lambda: Table(root, schema).last_batch(), hold):
    try:
        step()
        print("done")
    except LatecomerError as error:
        print(error)
del taken[:]
table.append(1, pa.table({"batch": [1]}))
print("batch", Table(root, schema).last_batch())
"""


def test_too_many_open_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_FILES, str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *outcome, after = done.stdout.splitlines()
    assert len(outcome) == 3
    for line in outcome:
        assert "too many files are open" in line
        assert "ulimit -n" in line
    assert after == "batch 1"
