"""Documents of one type in a metadata store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from magnetar.base.errors import CorruptionError, NotFoundError
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.policy.document import Document
from magnetar.metadata.store import ABSENT, Delete, Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.metadata.store import MetadataStore

Key = TypeVar("Key")
Value = TypeVar("Value", bound=Document)


class Documents(ABC, Generic[Key, Value]):
    """Documents of one type, identified by ``Key``.

    A change is visible at once. Callers that confirm a change await its Commit first.
    """

    _kind: type[Value]

    def __init__(self, store: MetadataStore) -> None:
        """Access the documents in ``store``."""
        self._store = store

    def get(self, key: Key) -> Value | None:
        """Return the document, None if it is absent; raises CorruptionError with the path if it is invalid."""
        found = self._store.get(self._path(key))
        return self._read(key, found.value) if found else None

    def exists(self, key: Key) -> bool:
        """Return whether the document exists."""
        return self._store.get(self._path(key)) is not None

    def create(self, key: Key, value: Value) -> Commit:
        """Store a new document; raises BadVersionError if it exists."""
        return Commit(self._store, [Put(self._path(key), value.to_bytes(), ABSENT)])

    def update(self, key: Key, change: Callable[[Value], Value]) -> Commit:
        """Replace a document by the result of ``change``.

        Raises NotFoundError if it does not exist, BadVersionError after a concurrent change.
        """
        path = self._path(key)
        found = self._store.get(path)
        if found is None:
            raise NotFoundError(path)
        value = change(self._read(key, found.value))
        return Commit(self._store, [Put(path, value.to_bytes(), found.version)])

    def put(self, key: Key, value: Value) -> Commit:
        """Store a document, whether or not it exists; raises BadVersionError after a concurrent change."""
        return self.update(key, lambda _: value) if self.exists(key) else self.create(key, value)

    def delete(self, key: Key) -> Commit:
        """Delete a document; raises NotFoundError if it does not exist."""
        path = self._path(key)
        found = self._store.get(path)
        if found is None:
            raise NotFoundError(path)
        return Commit(self._store, [Delete(path, found.version)])

    def _read(self, key: Key, text: bytes) -> Value:
        try:
            return self._kind.from_json(text)
        except ValueError as error:
            message = f"{self._path(key)}: the stored document cannot be read: {error}"
            raise CorruptionError(message) from error

    @abstractmethod
    def _path(self, key: Key) -> str: ...
