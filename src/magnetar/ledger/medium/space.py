"""Room on the disk: when it counts as full, and some that is held back for what must go on then.

Two lines of defence. Publishing pauses while less than ``low_water_bytes`` are free, so that ordinarily nothing ever
meets a full disk. Should the disk fill up faster than somebody looks, or by others, a file of ``reserve_bytes`` is
removed: acknowledgements and the metadata go on in its place. Once there is room again the file is made anew, and only
then publishing goes on.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

RESERVE_NAME = "reserve"

_HYSTERESIS = 4
"""Publishing goes on once a fourth of the low-water mark more than that is free, so that it does not flutter."""


def give_reserve(files: Files, directory: Path) -> bool:
    """Give the room back that is held in ``directory``, by whatever run of the broker; whether there was any."""
    with suppress(OSError):
        files.remove(directory / RESERVE_NAME)
        return True
    return False


class Space:
    """The free space of one directory's disk. Without a low-water mark the disk never counts as full."""

    def __init__(self, files: Files, directory: Path, reserve_bytes: int, low_water_bytes: int) -> None:
        """Nothing is held back yet."""
        self._files = files
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self._low_water_bytes = low_water_bytes
        self._holds_reserve = False
        self._lock = threading.Lock()
        """Held while room is taken or given back, which threads do."""

    @property
    def is_watched(self) -> bool:
        """Whether there is a low-water mark."""
        return self._low_water_bytes > 0

    def take_reserve(self) -> bool:
        """Hold room back; whether that was possible."""
        with self._lock:
            if not self._holds_reserve and self._reserve_bytes:
                try:
                    self._files.allocate(self._directory / RESERVE_NAME, self._reserve_bytes)
                except OSError:
                    give_reserve(self._files, self._directory)
                    return False
                self._holds_reserve = True
            return True

    def give_reserve(self) -> bool:
        """Give the room back that is held, be it by an earlier run of the broker; whether there was any."""
        with self._lock:
            self._holds_reserve = False
            return give_reserve(self._files, self._directory)

    def shortage(self) -> str | None:
        """Why publishing should pause; None if there is room enough."""
        free = self._free()
        if not self.is_watched or free >= self._low_water_bytes:
            return None
        return self._describe(free, self._low_water_bytes)

    def remaining_shortage(self) -> str | None:
        """Why publishing that was paused cannot go on yet; None if it can, and then the reserve is held again."""
        free = self._free()
        needed = self._low_water_bytes + self._low_water_bytes // _HYSTERESIS
        needed += 0 if self._holds_reserve else self._reserve_bytes
        if free >= needed and self.take_reserve():
            return None
        return self._describe(free, needed)

    def _describe(self, free: int, needed: int) -> str:
        return (
            f"disk full: {free} bytes are free where {self._directory} is, publishing goes on with {needed}; "
            "delete something there, or make the disk larger"
        )

    def _free(self) -> int:
        return self._files.free_bytes(self._directory)
