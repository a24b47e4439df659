"""A disk in memory that fills up, fails, and loses what was not synced, as a real one may."""

# ruff: noqa: ARG002 - it has the parameters of Files

from __future__ import annotations

import errno
import os
import random
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECTOR = 64
"""Bytes that a crash keeps or loses together; small, so that short tests see torn records."""


class Node:
    """The content of a file: as the kernel has it, and as the disk surely has it."""

    def __init__(self) -> None:
        """An empty file."""
        self.data = bytearray()
        self.reserved = 0
        """Bytes that the disk keeps room for."""
        self.synced = b""


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
        if self._disk.fail_syncs:
            raise OSError(self._disk.sync_errno, os.strerror(self._disk.sync_errno))
        with self._disk.lock:
            self._disk.syncs += 1
            self._disk.count_step()
            self._node.synced = bytes(self._node.data)

    def truncate(self, length: int) -> None:
        """See File."""
        with self._disk.lock:
            self._disk.give_room(len(self._node.data) - length)
            del self._node.data[length:]
            self._node.reserved = 0
            self._disk.count_step()

    def close(self) -> None:
        """See File."""


class FaultyDisk:
    """See magnetar.base.world.Files; faults are switched on and off by its attributes."""

    def __init__(self) -> None:
        """An empty disk without faults."""
        self.room: int | None = None
        """Bytes that can still be written; None for any number."""
        self.fail_writes = False
        self.fail_syncs = False
        self.fail_to_set_aside = False
        self.sync_errno = errno.EIO
        self.tear_write_at: int | None = None
        """Bytes of a write after which it fails; None: writes are whole."""
        self.fail_opens = False
        self.fail_removes = False
        self.fail_directory_syncs = False
        self.syncs = 0
        self.lock = threading.Lock()
        """Makes every operation one step, so that a crash comes between two of them or tears the last write."""
        self.after_crash: FaultyDisk | None = None
        """The disk as it is found when power is back."""
        self._steps = 0
        self._chance = random.Random(0)
        self.nodes: dict[Path, Node] = {}
        self._durable: dict[Path, Node] = {}

    def take_room(self, wanted: int) -> int:
        """Take up to ``wanted`` bytes of the room that is left; how many there were."""
        if self.room is None:
            return wanted
        taken = min(self.room, wanted)
        self.room -= taken
        return taken

    def give_room(self, given: int) -> None:
        """Give room back."""
        if self.room is not None:
            self.room += given

    def open(self, path: Path) -> FaultyFile:
        """See Files."""
        if self.fail_opens:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
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
        """Lose power in so many changes of the disk, each seen before it is synced; then every change fails."""
        self._steps, self._chance = steps, chance

    def count_step(self) -> None:
        """Note a change of the disk; raises OSError when power is lost with it."""
        self._steps -= 1
        if self._steps == 0:
            self.after_crash = self._crash(self._chance)
        if self._steps <= 0 and self.after_crash is not None:
            raise OSError(errno.EIO, "power lost")

    def crash(self, chance: random.Random) -> FaultyDisk:
        """Return the disk as it may be after power was lost now: unsynced sectors survive or not, one by one."""
        with self.lock:
            return self._crash(chance)

    def _crash(self, chance: random.Random) -> FaultyDisk:
        after = FaultyDisk()
        for path in sorted(self.nodes.keys() | self._durable.keys()):
            names = [names for names in (self.nodes, self._durable) if path in names]
            if len(names) == 2 or chance.random() < 0.5:
                node = Node()
                node.synced = _survivor(names[0][path], chance)
                node.data = bytearray(node.synced)
                after.nodes[path] = node
        after._durable = dict(after.nodes)
        return after


def _survivor(node: Node, chance: random.Random) -> bytes:
    synced, data = node.synced, bytes(node.data)
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
