"""A disk that loses unsynced data at a power failure, for a real process with all its files, including SQLite's.

``lossy_disk.c``, loaded with LD_PRELOAD, keeps a journal of the process's operations on the files below one directory.
After ``kill -9`` the journal determines the possible contents of a disk after a power failure at that instant:
everything covered by a completed ``fsync`` or ``fdatasync``, and a random selection of the rest. The simulated file
system guarantees no more than POSIX:

* an unsynced page (4 KiB) is kept, lost or torn at any sector (512 bytes), independent of other pages; the kernel may
  also have written it at any time before;
* the length of an unsynced file is the old one, the new one, or one between;
* the unsynced changes of a directory (creations, renamings, removals) are kept up to any one of them;
* the pages of a failed sync are clean from then on: later syncs succeed without them, reads still return them, and some
  are lost at a power failure, unless they are written again.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

PAGE, SECTOR = 4096, 512
"""Bytes that the kernel, or the disk, keeps or loses together."""

WRITTEN_BEFORE = 0.02
"""Probability that the kernel writes some of the file's pages after a write without a sync."""

SYNC_S = 0.004
"""Duration of a sync in seconds, long enough that many power failures fall into one."""

LOST_BY_FAILED_SYNC = 0.7
"""Probability that a page of a failed sync is not on the disk."""

CREATE, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_BEGIN, SYNC_END, SYNC_FAILED = range(1, 11)
_RECORD = struct.Struct("<IIQQQ")
_CONTROL = struct.Struct("<qq48s")
_SOURCE = Path(__file__).with_suffix(".c")


class NoCompilerError(Exception):
    """There is no C compiler for the journal's library."""


def build_library(directory: Path) -> Path:
    """Compile the library into ``directory``; raises NoCompilerError."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        message = "no C compiler (cc, gcc or clang) on the PATH: power cannot be lost here"
        raise NoCompilerError(message)
    library = directory / "lossy_disk.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True, slots=True)
class Record:
    """One operation from the journal."""

    kind: int
    inode: int
    offset: int
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Flight:
    """The data of a sync in progress."""

    pages: dict[int, bytes]
    size: int


class Content:
    """The bytes of a file: the cache that reads return, and the contents on the disk."""

    def __init__(self, data: bytes = b"") -> None:
        """Create a file with durable ``data``."""
        self.cache = bytearray(data)
        self.disk = bytearray(data)
        self.dirty: set[int] = set()
        self.flights: dict[int, Flight] = {}

    def write(self, offset: int, data: bytes) -> None:
        """Change the cache."""
        end = offset + len(data)
        first = min(offset, len(self.cache))
        self.cache.extend(bytes(max(0, end - len(self.cache))))
        self.cache[offset:end] = data
        self.dirty.update(range(first // PAGE, -(-end // PAGE)))

    def truncate(self, size: int) -> None:
        """Change the length of the cache."""
        first = min(size, len(self.cache))
        last = max(size, len(self.cache), len(self.disk))
        del self.cache[size:]
        self.cache.extend(bytes(max(0, size - len(self.cache))))
        self.dirty.update(range(first // PAGE, -(-last // PAGE)))

    def begin_sync(self, number: int) -> None:
        """Begin a sync of the dirty pages, which become clean, and of the pages of other syncs in progress."""
        pages = {page: self._cached(page) for page in self.unsynced_pages}
        self.flights[number] = Flight(pages, len(self.cache))
        self.dirty.clear()

    def end_sync(self, number: int) -> None:
        """Complete a sync: write its pages to the disk."""
        flight = self.flights.pop(number)
        self._resize(flight.size)
        for page, data in flight.pages.items():
            self._put(page, data)

    def fail_sync(self, number: int, chance: random.Random) -> None:
        """Fail a sync: lose some of its pages, which stay clean; the length may reach the disk."""
        flight = self.flights.pop(number)
        if chance.random() < 0.5:
            self._resize(flight.size)
        for page, data in sorted(flight.pages.items()):
            if chance.random() >= LOST_BY_FAILED_SYNC:
                self._resize(max(len(self.disk), min((page + 1) * PAGE, flight.size)))
                self._put(page, data)

    def interrupt_syncs(self) -> None:
        """Leave the pages of syncs in progress to the kernel, because the process is dead."""
        self.dirty = self.unsynced_pages
        self.flights.clear()

    def write_unasked(self, chance: random.Random) -> None:
        """Write some of the dirty pages to the disk, as the kernel may at any time."""
        for page in sorted(self.dirty):
            if chance.random() < 0.5:
                self._resize(max(len(self.disk), min((page + 1) * PAGE, len(self.cache))))
                self._put(page, self._cached(page))

    @property
    def unsynced_pages(self) -> set[int]:
        """Return the pages that may differ between cache and disk, except after failed syncs."""
        return self.dirty.union(*(flight.pages for flight in self.flights.values()))

    def lose_power(self, chance: random.Random) -> bytes:
        """Return the contents of the disk after a power failure."""
        unsynced = sorted(self.unsynced_pages)
        fate = chance.choice(("kept", "lost", "mixed", "mixed"))
        if fate == "lost" or not unsynced:
            return bytes(self.disk)
        if fate == "kept":
            size = len(self.cache)
        else:
            low, high = sorted((len(self.disk), len(self.cache)))
            size = chance.choice((low, high, *(max(low, min((page + 1) * PAGE, high)) for page in unsynced)))
        self._resize(size)
        for page in unsynced:
            if fate == "kept":
                self._put(page, self._cached(page))
            else:
                self._put_some(page, chance)
        return bytes(self.disk)

    def _put_some(self, page: int, chance: random.Random) -> None:
        state = chance.choice(("kept", "lost", "torn"))
        if state == "lost":
            return
        data = self._cached(page)
        for start in range(0, len(data), SECTOR):
            if state == "kept" or chance.random() < 0.5:
                self._put_at(page * PAGE + start, data[start : start + SECTOR])

    def _cached(self, page: int) -> bytes:
        return bytes(self.cache[page * PAGE : (page + 1) * PAGE])

    def _put(self, page: int, data: bytes) -> None:
        self._put_at(page * PAGE, data)

    def _put_at(self, offset: int, data: bytes) -> None:
        room = max(0, len(self.disk) - offset)
        self.disk[offset : offset + min(room, len(data))] = data[:room]

    def _resize(self, size: int) -> None:
        del self.disk[size:]
        self.disk.extend(bytes(size - len(self.disk)))


@dataclass(slots=True)
class Folder:
    """The entries of a directory: the cache, the contents on the disk, and the pending changes."""

    cache: dict[str, Node] = field(default_factory=dict)
    disk: dict[str, Node] = field(default_factory=dict)
    pending: list[list[tuple[str, Node | None]]] = field(default_factory=list)
    """Changes in order; each maps names to nodes, None for a removal, and is applied completely or not at all."""
    flights: dict[int, int] = field(default_factory=dict)
    """By number of a sync, the count of changes that were pending at its beginning."""

    def change(self, *names: tuple[str, Node | None]) -> None:
        """Change the cached entries."""
        self.pending.append(list(names))
        _apply(self.cache, names)

    def begin_sync(self, number: int) -> None:
        """Record the pending changes."""
        self.flights[number] = len(self.pending)

    def end_sync(self, number: int) -> None:
        """Write the recorded changes to the disk."""
        done = self.flights.pop(number)
        self.commit(done)
        self.flights = {other: max(0, count - done) for other, count in self.flights.items()}

    def fail_sync(self, number: int) -> None:
        """Write nothing; unlike pages, changes stay pending."""
        del self.flights[number]

    def interrupt_syncs(self) -> None:
        """Drop the syncs in progress, because the process is dead."""
        self.flights.clear()

    def commit(self, count: int) -> None:
        """Write the first ``count`` changes to the disk."""
        for names in self.pending[:count]:
            _apply(self.disk, names)
        del self.pending[:count]


Node = Content | Folder


def _apply(
    entries: dict[str, Node], names: list[tuple[str, Node | None]] | tuple[tuple[str, Node | None], ...]
) -> None:
    for name, node in names:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


@dataclass(slots=True)
class Figures:
    """The unsynced data at all power failures so far."""

    power_losses: int = 0
    unsynced_pages: int = 0
    unsynced_entries: int = 0
    """Number of changes of directories."""
    failed_syncs: int = 0
    syncs: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By end of the file name, the number of completed syncs."""


class LossyDisk:
    """One directory, and the processes started with ``environment``, one at a time."""

    def __init__(self, root: Path, work: Path, library: Path, chance: random.Random, *, sync_s: float = SYNC_S) -> None:
        """Keep the journal in ``work``; existing files below ``root`` are durable. A sync takes ``sync_s`` seconds."""
        self.root = root.resolve()
        self.figures = Figures()
        self._chance = chance
        self._sync_us = round(sync_s * 1_000_000)
        self._journal = work / "journal"
        self._control = work / "control"
        self.root.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        self._control.touch()
        self.environment = {
            "LD_PRELOAD": str(library),
            "LOSSY_DISK_ROOT": str(self.root),
            "LOSSY_DISK_JOURNAL": str(self._journal),
            "LOSSY_DISK_CONTROL": str(self._control),
        }
        self._nodes: dict[int, Node] = {}
        self._names: dict[int, str] = {}
        self._top = self._power_on()

    def fail_sync(self, ahead: int, name_end: str = "") -> None:
        """Fail a sync with EIO: number ``ahead`` (1: the next one, 0: none) of files that end with ``name_end``."""
        with self._control.open("r+b", buffering=0) as control:  # a running broker has the file mapped
            control.write(_CONTROL.pack(ahead, self._sync_us, name_end.encode()))

    def settle(self) -> None:
        """Apply the operations of a killed process, whose files remain as the kernel shows them."""
        for record in self._take_journal():
            self._follow(record)
        for node in self._nodes.values():
            node.interrupt_syncs()
        self._follow_unrecorded(self._top, self.root)

    def lose_power(self) -> None:
        """Replace the files below ``root`` by the contents of the disk after a power failure; no process may run."""
        self.settle()
        self.figures.power_losses += 1
        survived = self.root.with_name(f"{self.root.name}.survived")
        self._write_out(self._top, survived)
        shutil.rmtree(self.root)
        survived.rename(self.root)
        self._top = self._power_on()

    def _power_on(self) -> Folder:
        self.fail_sync(0)
        self._journal.write_bytes(b"")
        self._nodes.clear()
        self._names.clear()
        top = self._adopt(self.root)
        assert isinstance(top, Folder)
        return top

    def _adopt(self, path: Path) -> Node:
        """Register ``path`` as durable."""
        node: Node
        if path.is_dir():
            entries = {child.name: self._adopt(child) for child in sorted(path.iterdir())}
            node = Folder(dict(entries), dict(entries))
        else:
            node = Content(path.read_bytes())
        self._introduce(path.stat().st_ino, path.name, node)
        return node

    def _introduce(self, inode: int, name: str, node: Node) -> None:
        self._nodes[inode] = node
        self._names[inode] = name

    def _take_journal(self) -> list[Record]:
        data = self._journal.read_bytes()
        self._journal.write_bytes(b"")
        return list(_records(data))

    def _follow(self, record: Record) -> None:
        if record.kind in (CREATE, MKDIR):
            node = Content() if record.kind == CREATE else Folder()
            folder, name = self._place(record.path)
            folder.change((name, node))
            self._introduce(record.inode, name, node)
        elif record.kind in (UNLINK, RMDIR):
            folder, name = self._place(record.path)
            folder.change((name, None))
        elif record.kind == RENAME:
            self._rename(record.path, record.data.decode())
        elif record.kind in (WRITE, TRUNCATE):
            content = self._nodes[record.inode]
            assert isinstance(content, Content)
            if record.kind == WRITE:
                content.write(record.offset, record.data)
            else:
                content.truncate(record.offset)
            if self._chance.random() < WRITTEN_BEFORE:
                content.write_unasked(self._chance)
        else:
            self._follow_sync(record)

    def _follow_sync(self, record: Record) -> None:
        node = self._nodes[record.inode]
        if record.kind == SYNC_BEGIN:
            node.begin_sync(record.offset)
        elif record.kind == SYNC_END:
            node.end_sync(record.offset)
            self.figures.syncs[self._names[record.inode].rpartition(".")[2]] += 1
        else:
            self.figures.failed_syncs += 1
            if isinstance(node, Content):
                node.fail_sync(record.offset, self._chance)
            else:
                node.fail_sync(record.offset)

    def _rename(self, source: str, target: str) -> None:
        (folder, old), (other, new) = self._place(source), self._place(target)
        assert folder is other, "renaming from one directory to another is not modelled"
        folder.change((old, None), (new, folder.cache[old]))

    def _place(self, path: str) -> tuple[Folder, str]:
        """Return the directory of ``path``, and its name in the directory."""
        *parents, name = Path(path).relative_to(self.root).parts
        folder = self._top
        for parent in parents:
            below = folder.cache[parent]
            assert isinstance(below, Folder)
            folder = below
        return folder, name

    def _follow_unrecorded(self, folder: Folder, path: Path) -> None:
        """Apply operations right before the kill that have no record."""
        found = {child.name: child for child in sorted(path.iterdir())}
        for name in sorted(folder.cache.keys() - found.keys()):
            folder.change((name, None))
        for name, child in found.items():
            node = folder.cache.get(name)
            inode = child.stat().st_ino
            if node is None or self._nodes.get(inode) is not node:
                node = Folder() if child.is_dir() else Content()
                folder.change((name, node))
                self._introduce(inode, name, node)
            if isinstance(node, Folder):
                self._follow_unrecorded(node, child)
            elif not name.endswith("-shm"):
                _overwrite(node, child.read_bytes())

    def _write_out(self, folder: Folder, path: Path) -> None:
        self.figures.unsynced_entries += len(folder.pending)
        folder.commit(self._chance.randint(0, len(folder.pending)))
        path.mkdir()
        for name, node in sorted(folder.disk.items()):
            if isinstance(node, Folder):
                self._write_out(node, path / name)
            else:
                self.figures.unsynced_pages += len(node.unsynced_pages)
                (path / name).write_bytes(node.lose_power(self._chance))


def _overwrite(content: Content, data: bytes) -> None:
    """Set the cache to ``data`` with the smallest possible change."""
    if content.cache == data:
        return
    if len(data) != len(content.cache):
        content.truncate(len(data))
    for start in range(0, len(data), PAGE):
        page = data[start : start + PAGE]
        if content.cache[start : start + PAGE] != page:
            content.write(start, page)


def _records(journal: bytes) -> Iterator[Record]:
    """Yield the complete records; the last one may be torn by the kill."""
    at = 0
    while at + _RECORD.size <= len(journal):
        kind, path_length, inode, offset, data_length = _RECORD.unpack_from(journal, at)
        body = at + _RECORD.size
        at = body + path_length + data_length
        if at > len(journal):
            return
        path = os.fsdecode(journal[body : body + path_length])
        yield Record(kind, inode, offset, path, journal[body + path_length : at])
