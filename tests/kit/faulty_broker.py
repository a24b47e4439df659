"""A broker process with faults of disk and clock that the test switches on and off.

The process runs ``magnetar broker`` with different implementations of the log's files and the clock. They read the
active faults from memory shared with the test. The metadata store (SQLite) is not affected.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from magnetar.base.real import SystemClock, SystemFile, SystemFiles
from magnetar.broker import service
from magnetar.cli.main import main
from tests.kit.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.logs.log_limit import LogLimit
    from magnetar.broker.settings.config import BrokerConfig

FAULTS_VARIABLE = "MAGNETAR_TEST_FAULTS"
"""Environment variable with the path of the shared file."""

_FAULTS = struct.Struct("<??dd")


class Faults(NamedTuple):
    """The active faults."""

    is_full: bool = False
    """Whether writes fail for lack of space."""
    fail_syncs: bool = False
    sync_s: float = 0.0
    """Additional seconds of each sync."""
    clock_offset_s: float = 0.0
    """Offset of the wall clock in seconds; the monotonic clock is not affected."""


class FaultyBroker(Broker):
    """A broker with faults; ``set`` changes them."""

    module: ClassVar[str] = "tests.kit.faulty_broker"
    arguments: ClassVar[tuple[str, ...]] = ("broker",)

    def command(self) -> list[str]:
        """See Server; every start begins without faults."""
        self.environment[FAULTS_VARIABLE] = str(self._path)
        self._path.write_bytes(_FAULTS.pack(*Faults()))
        return super().command()

    def set(self, faults: Faults) -> None:
        """Replace the active faults."""
        with self._path.open("r+b", buffering=0) as shared:  # the running broker has the file mapped
            shared.write(_FAULTS.pack(*faults))

    @property
    def _path(self) -> Path:
        return self.directory / "faults"


class _Shared:
    """The faults in the broker's process."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as shared:
            self._map = mmap.mmap(shared.fileno(), _FAULTS.size)

    @property
    def now(self) -> Faults:
        return Faults(*_FAULTS.unpack(self._map))


class _FaultyFile(SystemFile):
    def __init__(self, path: Path, shared: _Shared) -> None:
        super().__init__(path)
        self._shared = shared

    def write(self, parts: Sequence[bytes]) -> None:
        if self._shared.now.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(parts)

    def sync(self) -> None:
        faults = self._shared.now
        if faults.sync_s:
            time.sleep(faults.sync_s)
        if faults.fail_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()


class _FaultyFiles(SystemFiles):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared

    def open(self, path: Path) -> SystemFile:
        return _FaultyFile(path, self._shared)

    def allocate(self, path: Path, size: int) -> None:
        if self._shared.now.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(path, size)

    def free_bytes(self, directory: Path) -> int:
        return 0 if self._shared.now.is_full else super().free_bytes(directory)


class _FaultyClock(SystemClock):
    def __init__(self, shared: _Shared) -> None:
        self._shared = shared

    def now(self) -> float:
        return super().now() + self._shared.now.clock_offset_s


class _FaultyService(service.Broker):
    def __init__(self, config: BrokerConfig, *, log_limit: LogLimit) -> None:
        shared = _Shared(Path(os.environ[FAULTS_VARIABLE]))
        super().__init__(config, _FaultyFiles(shared), log_limit=log_limit)
        self._clock = _FaultyClock(shared)


if __name__ == "__main__":
    vars(service)["Broker"] = _FaultyService
    sys.exit(main())
