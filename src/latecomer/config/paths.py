"""The source's path: which files it names, in which order they are read, and which columns their folders give.

A folder means its files, and those in folders such as `day=2013-01-01` below it. A pattern knows `*`, `?`,
`[a-z]` and `{one,other}` as Hadoop does, and `**` for any number of folders. A listing and a run both ask `matches`, so
they find the same files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from latecomer.config.encodings import is_text
from latecomer.errors import SourceError
from latecomer.objects.locations import Url, scheme_of

_MARKS = "*?[]{}\\"
_ANY_DEPTH = "**"
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class SourcePath:
    """A path or pattern, absolute."""

    written: str

    @cached_property
    def is_url(self) -> bool:
        return scheme_of(self.written) is not None

    @cached_property
    def is_folder(self) -> bool:
        """Whether the path means a folder. A URL without a pattern always does."""
        if self.is_url:
            return all(_literal(part) is not None for part in self._parts)
        try:
            return Path(self.written).is_dir()
        except PermissionError:  # it is not known, and `require_reached` says so
            return False

    @cached_property
    def base(self) -> str:
        """The folder that holds all files: the parts before the first one with a pattern."""
        if self.is_folder:
            return self.written.rstrip("/") or "/"
        return "/".join(_literal(part) or "" for part in self._parts[: self._first_mark]) or "/"

    @property
    def many_folders(self) -> bool:
        """Whether the files of the pattern may be in several folders."""
        deep = self._first_mark < len(self._parts) - 1 or self._parts[-1] == _ANY_DEPTH
        return deep and not self.is_folder

    def matches(self, path: str) -> bool:
        """Whether a file, given with its absolute path, belongs to the source."""
        below = self.below(path)
        if below is None or _is_hidden(below):
            return False
        if self.is_folder:
            return all(_is_value(folder) for folder in below[:-1])
        return self._regex.fullmatch(path) is not None

    def leads_to(self, folder: str) -> bool:
        """Whether a folder below the base may hold files of the source, itself or in folders below it."""
        below = self.below(folder)
        if below is None or any(map(is_hidden_folder, below)):
            return False
        if self.is_folder:
            return all(map(_is_value, below))
        for name, pattern in zip(below, self._folders, strict=False):
            if pattern is None:
                return True
            if not pattern.fullmatch(name):
                return False
        return len(below) <= len(self._folders)

    def below(self, path: str) -> list[str] | None:
        """The parts of a path below the base; None where it is not below it."""
        start = self.base.rstrip("/") + "/"
        return path[len(start) :].split("/") if path.startswith(start) else None

    def folder_values(self, path: str) -> dict[str, str | None]:
        """The columns and values in the names of a file's folders, such as `day=2013-01-01`.

        >>> SourcePath("/in/**/*.json").folder_values("/in/day=2013-01-01/city=S%C3%A3o%20Paulo/a.json")
        {'day': '2013-01-01', 'city': 'São Paulo'}
        """
        pairs = (folder.split("=", 1) for folder in (self.below(path) or [""])[:-1] if _is_value(folder))
        return {unquote(name): None if value == _NULL else unquote(value) for name, value in pairs}

    @property
    def mistake(self) -> str | None:
        """Why the pattern is not valid; None if it is."""
        for part in self._parts[self._first_mark :]:
            bare = re.sub(r"\\.|\[.[^]]*\]", "", part)
            if "[" in bare or bare.endswith("\\") or bare.count("{") != bare.count("}"):
                return "has a bracket that is not closed"
            if _ANY_DEPTH in part and part != _ANY_DEPTH:
                return "has ** beside something else"
        try:
            re.compile(self._regex)
        except re.error as error:
            return f"is not a pattern ({error})"
        return None

    def require_reached(self) -> None:
        """Refuse a path of which it cannot be known whether it is a folder, for want of rights."""
        if self.is_url:
            return
        try:
            Path(self.written).is_dir()
        except PermissionError:
            raise SourceError(_may_not("source folder", self.base, "listed")) from None

    def hindrances(self) -> Iterator[str]:
        """What keeps a run from reading the files that exist now, a sentence each."""
        if self.is_url:
            return
        try:
            self.require_reached()
            self.require_folder()
        except SourceError as error:
            yield str(error)
            return
        if not os.access(self.base, os.R_OK | os.X_OK):
            yield _may_not("source folder", self.base, "listed")
            return
        closed = [file for file in self.listed if not os.access(file, os.R_OK)]
        if len(closed) > 1:
            yield _may_not(f"{len(closed):,} files of the source, such as", closed[0], "read")
        elif closed:
            yield _may_not("source file", closed[0], "read")

    def require_folder(self) -> None:
        """Refuse a folder that does not exist: it may be a typing error. Files in it may come later. A path without a
        pattern must exist, too: otherwise it is unknown whether it means a folder or a file. An object store has no
        folders."""
        if self.is_url:
            return
        if not Path(self.base).is_dir():
            raise SourceError(
                f"source folder {self.base} does not exist; create it, or correct source.files.path "
                f"({self.written})"
            )
        literal = [_literal(part) for part in self._parts]
        named = "/".join(part for part in literal if part is not None)
        if None not in literal and not self.is_folder and not Path(named).exists():
            raise SourceError(
                f"source.files.path {self.written} does not exist; create the folder, or name files that come later "
                f"by a pattern, such as {self.base.rstrip('/')}/*{Path(named).suffix}"
            )

    def files(self) -> list[str]:
        """The files that exist now, in reading order: by modification time, then by path."""
        return self._objects() if self.is_url else _in_order(self._names_now())

    @cached_property
    def names(self) -> list[str]:
        """What it named when that was first asked: files, and what is no regular file."""
        return list(self._names_now())

    @cached_property
    def _files(self) -> list[str]:
        return self._objects() if self.is_url else _in_order(self.names)

    @property
    def listed(self) -> list[str]:
        """The files that existed when that was first asked, without those that cannot be opened for their names."""
        return [file for file in self._files if is_text(file)]

    @property
    def misnamed(self) -> list[str]:
        """The files whose names are not UTF-8: neither Java nor Spark can open them."""
        return [file for file in self._files if not is_text(file)]

    def _objects(self) -> list[str]:
        from latecomer.objects.files import below  # with Arrow: only where a path is a URL

        base = Url(self.base)
        timed = ((about["last_modified"], f"{base}/{name}") for name, about in below(base) if about["size"])
        return [path for _, path in sorted(timed) if self.matches(path)]

    def _names_now(self) -> Iterator[str]:
        deep = self.is_folder or self.many_folders
        return filter(self.matches, _below(self.base) if deep else _within(self.base))

    @cached_property
    def _parts(self) -> list[str]:
        return self.written.rstrip("/").split("/")

    @cached_property
    def _first_mark(self) -> int:
        """The first part with a pattern, or the last part where none has one."""
        marked = (nth for nth, part in enumerate(self._parts) if _literal(part) is None)
        return next(marked, len(self._parts) - 1)

    @cached_property
    def _folders(self) -> list[re.Pattern[str] | None]:
        """The patterns of the folders below the base, the outer one first; None stands for any number of folders."""
        *folders, name = map(_regex, self._parts[self._first_mark :])
        if name is None:
            folders.append(None)
        return [folder if folder is None else re.compile(folder, re.DOTALL) for folder in folders]

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        *folders, name = (_regex(part) for part in self._parts[self._first_mark :])
        below = "".join("(?:[^/]+/)*" if folder is None else f"{folder}/" for folder in folders)
        return re.compile(
            re.escape(self.base.rstrip("/") + "/") + below + ("(?:[^/]+/)*[^/]+" if name is None else name),
            re.DOTALL,
        )


def _in_order(names: Iterable[str]) -> list[str]:
    """The regular files among these, in reading order."""
    timed = []
    for path in names:
        try:
            about = os.stat(path)
        except OSError:  # it was deleted, or is a link to nothing
            continue
        if stat.S_ISREG(about.st_mode):
            timed.append((about.st_mtime_ns // 1_000_000, path))
    return [path for _, path in sorted(timed)]


def _may_not(what: str, path: str, done: str) -> str:
    return f"{what} {path} cannot be {done}: permission is denied; give whoever runs latecomer the right to read there"


def list_files(path: str) -> list[str]:
    """The files that a path or pattern names now, in reading order, without hidden and unfinished ones."""
    return SourcePath(path).listed


def special_files(source: SourcePath) -> dict[str, str]:
    """What a path names that is not a regular file, and what it is. Nothing is opened: a pipe without a writer would
    block its reader."""
    if source.is_url:
        return {}
    kinds = {name: special_kind(name) for name in source.names if is_text(name)}
    special = {name: kind for name, kind in kinds.items() if kind is not None}
    return special | dict.fromkeys(
        filter(is_text, folder_loops(source.written)), "a link to a folder that it lies in"
    )


def special_kind(path: str | Path) -> str | None:
    """What a path is if it is not a regular file, such as `a pipe`. None for a file, and for a path that was
    deleted."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "a link to nothing" if os.path.islink(path) else None
    except OSError:  # a link to itself
        return "a link that leads nowhere" if os.path.islink(path) else None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no file")


def loops_back(folder: str) -> bool:
    """Whether a folder is a link to one of its own parents: following it would never end."""
    if not os.path.islink(folder):
        return False
    target = os.path.realpath(folder)
    around = (Path(os.path.realpath(parent)) for parent in Path(folder).parents)
    return os.path.isdir(target) and any(parent.is_relative_to(target) for parent in around)


def folder_loops(path: str) -> list[str]:
    """The links below a path's folder that lead back to a folder they lie in."""
    loops: list[str] = []
    for parent, folders, _ in os.walk(SourcePath(path).base):
        below = (os.path.join(parent, name) for name in folders if not is_hidden_folder(name))
        loops += filter(loops_back, below)
    return sorted(loops)


def folder_columns(path: str, files: Iterable[str]) -> dict[str, str]:
    """The columns in the names of these files' folders, with types that hold all of their values."""
    source, kinds = SourcePath(path), dict[str, set[str]]()
    for file in files:
        for name, value in source.folder_values(file).items():
            kinds.setdefault(name, set()).update([] if value is None else [_kind_of(value)])
    return {name: each.pop() if len(each) == 1 else "string" for name, each in kinds.items()}


def _kind_of(value: str) -> str:
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", value):
        return "bigint"
    try:
        return "date" if date.fromisoformat(value).isoformat() == value else "string"
    except ValueError:
        return "string"


def _is_value(folder: str) -> bool:
    return folder.find("=") > 0


def _is_hidden(below: list[str]) -> bool:
    *folders, name = below
    return name.startswith((".", "_")) or name.endswith("._COPYING_") or any(map(is_hidden_folder, folders))


def is_hidden_folder(name: str) -> bool:
    """Whether nothing in folders of this name is ever read."""
    return name.startswith(".") or (name.startswith("_") and not _is_value(name))


def _within(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.path for entry in entries)
    except OSError:
        return


def _below(folder: str) -> Iterator[str]:
    """Everything except folders in a folder and the folders below it. Links are followed unless they loop back."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [
            name
            for name in folders
            if not is_hidden_folder(name) and not loops_back(os.path.join(parent, name))
        ]
        yield from (os.path.join(parent, name) for name in names)


def escaped(folder: str) -> str:
    """A path as part of a pattern, in which every character stands for itself."""
    return "".join(f"\\{mark}" if mark in _MARKS else mark for mark in folder)


def _literal(part: str) -> str | None:
    """The only name that a part of a pattern matches; None where it may match several."""
    bare = re.sub(r"\\(.)", "", part)
    return None if set(_MARKS) & set(bare) else re.sub(r"\\(.)", r"\1", part)


def _regex(part: str) -> str | None:
    """A part of a pattern as a regular expression, by Hadoop's rules; None for `**`."""
    if part == _ANY_DEPTH:
        return None
    regex, depth, place = "", 0, 0
    while place < len(part):
        mark = part[place]
        place += 1
        if mark == "\\" and place < len(part):
            regex += re.escape(part[place])
            place += 1
        elif mark == "*":
            regex += "[^/]*"
        elif mark == "?":
            regex += "[^/]"
        elif mark == "[" and (end := part.find("]", place + 1)) > 0:
            chosen = part[place:end]
            regex += "[" + ("^/" if chosen[0] in "^!" else "") + _choice(chosen.lstrip("^!") or chosen) + "]"
            place = end + 1
        elif mark == "{":
            regex, depth = regex + "(?:", depth + 1
        elif mark == "}" and depth:
            regex, depth = regex + ")", depth - 1
        elif mark == "," and depth:
            regex += "|"
        else:
            regex += re.escape(mark)
    return regex + ")" * depth


def _choice(chosen: str) -> str:
    """The characters between brackets, as a regular expression: only the `-` of a range keeps its meaning."""
    return "".join("-" if mark == "-" else re.escape(mark) for mark in chosen)
