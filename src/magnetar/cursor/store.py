"""The cursors of one topic: made, opened, listed and deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote_plus

from magnetar.base.errors import CorruptionError
from magnetar.base.names import TopicName
from magnetar.cursor.cursor import Cursor
from magnetar.cursor.info import CursorHome, CursorInfo
from magnetar.cursor.limits import DEFAULT_LIMITS
from magnetar.cursor.state import CursorState
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.cursor.limits import CursorLimits
    from magnetar.cursor.state import PositionSpace
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore, OnDurable

    Commit = Callable[[Sequence[Put], OnDurable], object]
    """Commits these writes, perhaps with others, in one transaction."""

NO_LEDGER = -1
"""The ledger id of a cursor whose records are given up or cannot be found: no ledger has it."""


def deletion_mark(path: str, ledger_id: int) -> Put:
    """Return the write that deletes the cursor at ``path``, whose ledger is still to be deleted."""
    return Put(path, json.dumps({"deleted": True, "cursorsLedgerId": ledger_id}).encode())


def cursor_ledgers(metadata: MetadataStore, topic: TopicName) -> Iterator[tuple[str, int | None]]:
    """Yield the path and the ledger of each cursor of a topic, also of those whose deletion was interrupted.

    The ledger is None if the record cannot be read.
    """
    root = _cursors_path(topic)
    for child in metadata.children(root):
        path = f"{root}/{child}"
        stored = metadata.get(path)
        if stored is None:
            continue
        try:
            yield path, int(json.loads(stored.value)["cursorsLedgerId"])
        except (ValueError, KeyError, TypeError):
            yield path, None


def _cursors_path(topic: TopicName) -> str:
    return f"{managed_ledger_path(topic)}/cursors"


class CursorStore:
    """The durable cursors of one topic, each at ``<managed ledger's path>/cursors/<encoded name>``.

    A deleted cursor leaves its path behind until its ledger is gone for good, so a crash in between leaves no ledger
    without an owner.
    """

    def __init__(
        self,
        store: LedgerStore,
        metadata: MetadataStore,
        topic_name: str,
        space: PositionSpace,
        limits: CursorLimits = DEFAULT_LIMITS,
        failed: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        """The cursors of ``topic_name``, whose log has the positions of ``space``.

        ``failed`` is told of a new cursor, or a deletion, that could not be stored.
        """
        self._limits = limits
        self._failed = failed
        self._new: list[CursorInfo] = []
        """Values of cursors that may not be durable yet. Recorded ones may be closed and cleared."""
        self._deletions = 0
        """Deletions that are neither durable nor failed."""
        self._store = store
        self._metadata = metadata
        self._space = space
        self._root = _cursors_path(TopicName.parse(topic_name))

    @property
    def is_recording(self) -> bool:
        """Whether a new cursor, or the deletion of one, is on its way to the disk."""
        self._new = [info for info in self._new if not info.is_recorded]
        return bool(self._new or self._deletions)

    def create(
        self,
        name: str,
        mark_delete: Position,
        *,
        durable: bool = True,
        subscription_properties: Mapping[str, str] | None = None,
    ) -> Cursor:
        """A new cursor after ``mark_delete``, durable with its first flush.

        One that is not durable is written nowhere and forgotten with its owner.
        """
        assert not durable or self._is_gone(name), f"cursor {name} is there already"
        home = self._home(self._path(name) if durable else None)
        cursor = Cursor(CursorInfo(home, mark_delete), name, CursorState(self._space, mark_delete))
        cursor.begin(subscription_properties or {})
        self._new.append(cursor.info)
        return cursor

    def _home(self, path: str | None) -> CursorHome:
        return CursorHome(self._store, self._metadata, path, self._limits, self._failed)

    def open(self, name: str) -> Cursor | None:
        """The cursor as its last durable record left it; None when there is none of that name.

        Whoever had it open before has waited for its last flush. Raises CorruptionError when what was written cannot be
        read.
        """
        value = self._value(name)
        if value is None or value.get("deleted"):
            return None
        try:
            cursor = Cursor.recover(self._home(self._path(name)), name, self._space, value)
        except (CorruptionError, ValueError, KeyError, TypeError) as error:
            message = f"{self._path(name)}: the cursor cannot be read: {error}"
            raise CorruptionError(message) from error
        if cursor.ledger_id is None:  # never written to
            self._store.delete(value["cursorsLedgerId"])
            cursor.begin(value["cursorProperties"])
            self._new.append(cursor.info)
        return cursor

    def open_all(self, wanted: Callable[[str], bool] = lambda _name: True) -> Iterator[Cursor | None]:
        """Open the cursors with a name that is wanted, sorted by name, and finish deletions that were interrupted.

        Yields once for each cursor that there is or was: None for one that is not wanted, or deleted.
        """
        for name in self._listed():
            self.finish_deletion(name)
            yield self.open(name) if wanted(name) else None

    def names(self, wanted: Callable[[str], bool] = lambda _name: True) -> list[str]:
        """The names of all cursors that there are and that are wanted, sorted."""
        values = ((name, self._value(name)) for name in self._listed() if wanted(name))
        return [name for name, value in values if value is not None and not value.get("deleted")]

    def delete(self, name: str, on_durable: OnDurable | None = None, commit: Commit | None = None) -> None:
        """Delete a cursor: there is none of this name from now on, and ``on_durable`` is told when that is durable.

        ``commit`` may make it part of a larger transaction, and raise; then nothing is deleted. If the deletion is not
        stored, the cursor is there again, and its topic is told that it failed. Deleting a cursor that is not there
        changes nothing.
        """
        puts = self.deletion(name)
        if not puts and commit is None:
            if on_durable is not None:
                self._metadata.barrier(on_durable)
            return
        marks = [json.loads(put.value) for put in puts]

        def reported(error: StorageError | None) -> None:
            self._deletions -= 1
            if error is not None:
                self._failed(error)
            else:
                for mark in marks:
                    self._delete_ledger(name, mark)
            if on_durable is not None:
                on_durable(error)

        self._deletions += 1
        try:
            (commit or self._metadata.commit)(puts, reported)
        except BaseException:
            self._deletions -= 1
            raise

    def records(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the ledger of each cursor, also of those whose deletion is not finished."""
        for name in self._listed():
            value = self._value(name)
            if value is not None:
                yield self._path(name), value["cursorsLedgerId"]

    def deletion(self, *names: str) -> list[Put]:
        """Return the writes that delete these cursors, none for one that is not there.

        They may be part of a larger transaction. ``finish_deletion`` has to follow for each.
        """
        found = [(name, self._value(name)) for name in names]
        return [
            deletion_mark(self._path(name), value["cursorsLedgerId"])
            for name, value in found
            if value is not None and not value.get("deleted")
        ]

    def finish_deletion(self, name: str) -> None:
        """Delete the ledger of a cursor that is marked as deleted, if it is, and then the mark."""
        mark = self._value(name)
        if mark is not None and mark.get("deleted"):
            self._delete_ledger(name, mark)

    def _delete_ledger(self, name: str, mark: dict[str, Any]) -> None:
        def delete_mark(error: StorageError | None) -> None:
            if error is None and self._value(name) == mark:  # else the cursor was created again, or its topic deleted
                self._metadata.commit([Delete(self._path(name))])  # if it fails, the next load of the topic finishes it

        self._store.delete(mark["cursorsLedgerId"])
        self._store.barrier(delete_mark)

    def _is_gone(self, name: str) -> bool:
        value = self._value(name)
        return value is None or bool(value.get("deleted"))

    def _path(self, name: str) -> str:
        return f"{self._root}/{quote_plus(name)}"

    def _value(self, name: str) -> dict[str, Any] | None:
        stored = self._metadata.get(self._path(name))
        try:
            return json.loads(stored.value) if stored is not None else None
        except ValueError as error:
            message = f"{self._path(name)}: the cursor cannot be read: {error}"
            raise CorruptionError(message) from error

    def _listed(self) -> list[str]:
        """The names of all cursors of which anything is stored, sorted."""
        return sorted(map(unquote_plus, self._metadata.children(self._root)))


def renewal_of_checkpoints(store: LedgerStore, cursors: Iterable[Cursor], segments_max: int) -> Iterator[None]:
    """Write cursors anew whose records lie in old segments, in steps of one cursor.

    For the cursors of a topic that is loaded for a moment: ``release_segment`` is given only those of loaded topics.
    """
    recent = store.segments()[-segments_max:]
    for cursor in cursors:
        oldest = store.oldest_segment_of(cursor.ledger_id) if cursor.ledger_id is not None else None
        if oldest is not None and oldest < recent[0]:
            cursor.checkpoint(lambda _: None)  # an error shows in the store's own state
        yield


def release_segment(store: LedgerStore, segment: int, by_ledger: dict[int, Cursor | None]) -> None:
    """Have a segment given back that nothing keeps but the cursors whose ledgers are in ``by_ledger``.

    A cursor that hardly changes keeps its last checkpoint, and with it the whole segment that it lies in. It is written
    anew, once for all segments: in ``by_ledger`` it is None from then on.
    """
    holders = store.pinned_by(segment)
    if all(ledger_id in by_ledger for ledger_id in holders):
        for ledger_id in holders:
            cursor, by_ledger[ledger_id] = by_ledger[ledger_id], None
            if cursor is not None:
                cursor.checkpoint(lambda _: None)  # an error shows in the store's own state
