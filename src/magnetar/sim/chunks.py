"""Assembly of chunked messages, by the rules of Pulsar's Java client (``ConsumerImpl``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.sim.checks.model import Entry


class Assembler:
    """The chunked messages of one consumer, each identified by its uuid until it is complete."""

    def __init__(self) -> None:
        """Begin without chunks."""
        self._last: dict[str, int] = {}
        """By message, the id of the last chunk that was assembled."""
        self._came: dict[tuple[str, str], int] = {}
        """By message and publishing cluster, the number of first chunks that arrived in order."""
        self._complete: dict[str, None] = {}
        """Messages whose chunks all arrived from one cluster."""
        self._whole: set[str] = set()
        """Assembled messages; not iterated."""

    def add(self, entry: Entry) -> bool:
        """Process the next entry; return whether it completes a message.

        A first chunk restarts its message, a repeated chunk is dropped, and a chunk after a gap discards the message.
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
        """Return a message whose chunks all arrived from one cluster and that was not assembled; or an empty string."""
        return next((name for name in self._complete if name not in self._whole), "")
