"""A chunked message is put together from its chunks as Pulsar's client in Java does it (``ConsumerImpl``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.sim.referees.model import Entry


class Assembler:
    """The chunked messages of one consumer. Each has a context by its uuid, until it is whole."""

    def __init__(self) -> None:
        """No chunk came."""
        self._last: dict[str, int] = {}
        """By message, the id of the last chunk that joined it."""
        self._came: dict[tuple[str, str], int] = {}
        """By message and the cluster that published it, how many of its first chunks came in order."""
        self._complete: dict[str, None] = {}
        """Messages of which all chunks that one cluster published came."""
        self._whole: set[str] = set()
        """Messages that were put together; not iterated."""

    def add(self, entry: Entry) -> bool:
        """Take the next entry; whether a message is whole now.

        A first chunk begins the message anew, one that came already is dropped, and with a chunk that comes too early
        the message is given up.
        """
        if entry.chunks == 1:
            return False
        name, key = entry.whole, (entry.whole, entry.cluster)
        # A consumer may begin between two chunks, and get the first one when the log is rebuilt from another cluster.
        if entry.chunk_id == self._came.get(key, 0):
            self._came[key] = entry.chunk_id + 1
        if self._came.get(key) == entry.chunks:
            self._complete[name] = None
        last = self._last.get(name, -1) if entry.chunk_id else -1
        if entry.chunk_id == last + 1:
            self._last[name] = entry.chunk_id
        elif entry.chunk_id > last:
            self._last.pop(name, None)
        if self._last.get(name) != entry.chunks - 1:
            return False
        del self._last[name]
        self._whole.add(name)
        return True

    def broken(self) -> str:
        """A message of which all chunks of one cluster came and which was not put together; empty: there is none."""
        return next((name for name in self._complete if name not in self._whole), "")
