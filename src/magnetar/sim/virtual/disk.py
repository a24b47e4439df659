"""A disk in memory that can be full, fail, and lose unsynced data."""

# ruff: noqa: ARG002 - it has the parameters of Files

from __future__ import annotations

import errno
import os
import random
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SECTOR = 64
"""Number of bytes that survive a crash together; small, so that short tests produce torn records."""


class Node:
    """The content of a file: the kernel's view, and the durable content."""

    def __init__(self, content: bytes = b"") -> None:
        """Create a file with durable ``content``."""
        self.data = bytearray(content)
        self.reserved = 0
        """Number of bytes reserved on the disk."""
        self.synced = bytes(content)
        self._clean = len(content)
        """The offset up to which the kernel has nothing to write."""
        self._lost: list[tuple[int, int]] = []
        """Ranges [start, end) that are clean but not on the disk, because their sync failed."""

    def sync(self) -> None:
        """Write the dirty content to the disk."""
        self.synced = self.image()
        self._clean = len(self.data)

    @property
    def is_synced(self) -> bool:
        """Return whether a loss of power would preserve the content."""
        return self._clean == len(self.data) and not self._lost

    def fail_sync(self) -> None:
        """Mark everything clean without writing it, as Linux does after an error: readable, but never on the disk."""
        if self._clean < len(self.data):
            self._lost.append((self._clean, len(self.data)))
        self._clean = len(self.data)

    def truncate(self, length: int) -> None:
        """Cut the file; later writes there are dirty."""
        del self.data[length:]
        self._clean = min(self._clean, length)
        self._lost = [(start, min(end, length)) for start, end in self._lost if start < length]

    def replace(self, start: int, before: bytes, after: bytes) -> bool:
        """Replace ``before`` by ``after`` in memory and on the disk; return False if the content differs."""
        end = start + len(before)
        if self.data[start:end] != before:
            return False
        self.data[start:end] = after
        if self.synced[start:end] == before:
            self.synced = self.synced[:start] + after + self.synced[end:]
        return True

    def image(self) -> bytes:
        """Return the content without the ranges that can no longer reach the disk."""
        image = bytearray(self.data)
        for start, end in self._lost:
            image[start:end] = bytes(end - start)
        return bytes(image)


class Rot(NamedTuple):
    """Damaged bytes of a file: the disk returns ``read`` instead of ``written``."""

    path: Path
    start: int
    written: bytes
    read: bytes


class FaultyFile:
    """See magnetar.base.world.File."""

    def __init__(self, disk: FaultyDisk, node: Node) -> None:
        """Open ``node`` of ``disk``."""
        self._disk = disk
        self._node = node

    def write(self, parts: Sequence[bytes]) -> None:
        """See File."""
        data = b"".join(parts)
        with self._disk.lock:
            room = self._disk.take_room(len(data))
            torn_at = self._disk.tear_write_at
            self._node.data += data[: room if torn_at is None else min(room, torn_at)]
            self._disk.count_step()
            self._disk.errors += room < len(data)
        if self._disk.fail_writes or (torn_at is not None and torn_at < len(data)):
            raise OSError(errno.EIO, "Input/output error")
        if room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def set_aside(self, size: int) -> None:
        """See File."""
        if self._disk.fail_to_set_aside:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        self._node.reserved = size

    def read_at(self, offset: int, length: int) -> bytes:
        """See File."""
        return bytes(self._node.data[offset : offset + length])

    def size(self) -> int:
        """See File."""
        return len(self._node.data)

    def sync(self) -> None:
        """See File."""
        if self._disk.takes_no_sync():
            with self._disk.lock:
                self._disk.errors += 1
                self._node.fail_sync()
            raise OSError(self._disk.sync_errno, os.strerror(self._disk.sync_errno))
        with self._disk.lock:
            self._disk.syncs += 1
            self._disk.count_step()
            self._node.sync()

    def truncate(self, length: int) -> None:
        """See File."""
        with self._disk.lock:
            self._disk.give_room(len(self._node.data) - length)
            self._node.truncate(length)
            self._node.reserved = 0
            self._disk.count_step()

    def close(self) -> None:
        """See File."""


class FaultyDisk:
    """See magnetar.base.world.Files. Attributes switch faults on and off."""

    def __init__(self) -> None:
        """Create an empty disk without faults."""
        self.room: int | None = None
        """Number of bytes that can still be written; None: unlimited."""
        self.fail_writes = False
        self.fail_syncs = False
        self.fail_syncs_after: int | None = None
        """Number of syncs that succeed before all others fail; None: ``fail_syncs`` decides."""
        self.fail_to_set_aside = False
        self.sync_errno = errno.EIO
        self.tear_write_at: int | None = None
        """Number of bytes of a write before it fails; None: no torn writes."""
        self.fail_opens = False
        self.open_errno = errno.EMFILE
        self.fail_removes = False
        self.fail_renames = False
        self.fail_directory_syncs = False
        self.syncs = 0
        self.errors = 0
        """Number of writes without space, and of failed syncs."""
        self.rot: list[Rot] = []
        """The damaged bytes; see ``damage`` and ``restore``."""
        self.lock = threading.Lock()
        """Makes every operation atomic, so that a crash falls between two operations or tears the last write."""
        self.after_crash: FaultyDisk | None = None
        """The disk after the loss of power, set by a crash."""
        self._steps = 0
        self._chance = random.Random(0)
        self.nodes: dict[Path, Node] = {}
        self._durable: dict[Path, Node] = {}

    @property
    def is_sound(self) -> bool:
        """Return whether no fault is switched on that occurs on healthy systems."""
        return self.room is None and not self.fail_syncs

    def find(self, written: bytes) -> tuple[Path, int] | None:
        """Return the file and offset of these bytes."""
        found = ((path, node.data.find(written)) for path, node in self.nodes.items())
        return next(((path, start) for path, start in found if start >= 0), None)

    def damage(self, path: Path, start: int, written: bytes, read: bytes) -> None:
        """Return ``read`` instead of ``written`` from now on."""
        self.nodes[path].replace(start, written, read)
        self.rot.append(Rot(path, start, written, read))

    def restore(self) -> None:
        """Restore all damaged bytes that still exist."""
        self._put_back()
        self.rot.clear()

    @contextmanager
    def intact(self) -> Iterator[None]:
        """Restore all damaged bytes for the duration of the context."""
        restored = self._put_back()
        try:
            yield
        finally:
            for rot in restored:
                self.nodes[rot.path].replace(rot.start, rot.written, rot.read)

    def _put_back(self) -> list[Rot]:
        found = [rot for rot in self.rot if rot.path in self.nodes]
        return [rot for rot in found if self.nodes[rot.path].replace(rot.start, rot.read, rot.written)]

    @property
    def is_synced(self) -> bool:
        """Return whether a loss of power would preserve every file."""
        with self.lock:
            return all(self._durable.get(path) is node and node.is_synced for path, node in self.nodes.items())

    def takes_no_sync(self) -> bool:
        """Return whether the current sync must fail."""
        if self.fail_syncs_after is not None:
            self.fail_syncs_after -= 1
            self.fail_syncs |= self.fail_syncs_after < 0
        return self.fail_syncs

    def take_room(self, wanted: int) -> int:
        """Reserve up to ``wanted`` bytes of the free space; return the number."""
        if self.room is None:
            return wanted
        taken = min(self.room, wanted)
        self.room -= taken
        return taken

    def give_room(self, given: int) -> None:
        """Return space to the disk."""
        if self.room is not None:
            self.room += given

    def open(self, path: Path) -> FaultyFile:
        """See Files."""
        if self.fail_opens:
            raise OSError(self.open_errno, os.strerror(self.open_errno))
        with self.lock:
            return FaultyFile(self, self.nodes.setdefault(path, Node()))

    def list(self, directory: Path) -> list[str]:
        """See Files."""
        with self.lock:
            return sorted(path.name for path in self.nodes if path.parent == directory)

    def make_directory(self, directory: Path) -> None:
        """See Files."""

    def remove(self, path: Path) -> None:
        """See Files."""
        if self.fail_removes:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        with self.lock:
            if path not in self.nodes:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.give_room(len(self.nodes.pop(path).data))
            self.count_step()

    def rename(self, source: Path, target: Path) -> None:
        """See Files."""
        if self.fail_renames:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with self.lock:
            replaced = self.nodes.get(target)
            self.nodes[target] = self.nodes.pop(source)
            self.give_room(0 if replaced is None else len(replaced.data))
            self.count_step()

    def allocate(self, path: Path, size: int) -> None:
        """See Files."""
        file = self.open(path)
        with suppress(OSError):
            file.truncate(0)
        file.write([bytes(size)])

    def free_bytes(self, directory: Path) -> int:
        """See Files."""
        return sys.maxsize if self.room is None else self.room

    def sync_directory(self, directory: Path) -> None:
        """See Files."""
        if self.fail_directory_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with self.lock:
            self._durable = dict(self.nodes)

    def crash_in(self, steps: int, chance: random.Random) -> None:
        """Lose power after a number of changes of the disk, each unsynced; all later changes fail."""
        self._steps, self._chance = steps, chance

    def count_step(self) -> None:
        """Count a change of the disk; raises OSError at the loss of power."""
        self._steps -= 1
        if self._steps == 0:
            self.after_crash = self._crash(self._chance)
        if self._steps <= 0 and self.after_crash is not None:
            raise OSError(errno.EIO, "power lost")

    def crash(self, chance: random.Random) -> FaultyDisk:
        """Return a possible disk after a loss of power now: each unsynced sector survives or not."""
        with self.lock:
            return self._crash(chance)

    def _crash(self, chance: random.Random) -> FaultyDisk:
        after = FaultyDisk()
        after.rot = self.rot
        for path in sorted(self.nodes.keys() | self._durable.keys()):
            found = [names[path] for names in (self.nodes, self._durable) if path in names]
            if len(found) == 1 and chance.random() < 0.5:
                continue  # neither its creation nor its removal is durable
            replaced = len(found) == 2 and found[0] is not found[1] and chance.random() < 0.5
            after.nodes[path] = Node(_survivor(found[-1 if replaced else 0], chance))
        after._durable = dict(after.nodes)
        return after


def _survivor(node: Node, chance: random.Random) -> bytes:
    synced, data = node.synced, node.image()
    if data == synced:
        return data
    keep = chance.randint(min(len(synced), len(data)), len(data))
    survivor = bytearray(data[:keep])
    first = min(len(synced), keep) // SECTOR
    for sector in range(first, (keep + SECTOR - 1) // SECTOR):
        if chance.random() < 0.3:
            start, end = max(sector * SECTOR, len(synced)), min((sector + 1) * SECTOR, keep)
            survivor[start:end] = bytes(max(end - start, 0))
    return bytes(survivor)
