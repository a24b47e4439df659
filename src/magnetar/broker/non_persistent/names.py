"""The names of the non-persistent topics of namespaces."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import count
from typing import TYPE_CHECKING

from magnetar.metadata.topic_names import Names

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metadata.resources import Topics


class NonPersistentNames:
    """The sorted names of the present topics, by namespace."""

    def __init__(self) -> None:
        """Begin without names."""
        self._texts: dict[NamespaceName, list[str]] = {}
        self._shown: dict[NamespaceName, Names] = {}
        """The names as they were returned last, of namespaces that have not changed since."""
        self._versions = count(1)

    def add(self, name: TopicName) -> None:
        """Add a name."""
        namespace = name.namespace_name
        self._shown.pop(namespace, None)
        insort(self._texts.setdefault(namespace, []), str(name))

    def remove(self, name: TopicName) -> None:
        """Remove a name."""
        namespace = name.namespace_name
        self._shown.pop(namespace, None)
        texts = self._texts[namespace]
        del texts[bisect_left(texts, str(name))]
        if not texts:
            del self._texts[namespace]

    def names_in_memory(self, namespace: NamespaceName) -> Names:
        """Return the full names of a namespace."""
        texts = self._texts.get(namespace)
        if texts is None:
            return Names((), 0)
        shown = self._shown.get(namespace)
        if shown is None:
            shown = self._shown[namespace] = Names(tuple(texts), next(self._versions))
        return shown

    def reading_names(self, namespace: NamespaceName) -> Generator[None, None, Names]:
        """Return the names in steps."""
        yield from ()
        return self.names_in_memory(namespace)


class AllNames:
    """The names of the topics of both domains."""

    def __init__(self, persistent: Topics, non_persistent: NonPersistentNames) -> None:
        """Combine the names of both."""
        self._persistent = persistent
        self._non_persistent = non_persistent
        self._versions = count()
        self._shown: tuple[Names, Names, Names] | None = None
        """The last combined names, and their parts."""

    def names_in_memory(self, namespace: NamespaceName) -> Names | None:
        """Return what ``reading_names`` would, if it needs no step; otherwise None."""
        stored = self._persistent.names_in_memory(namespace)
        return None if stored is None else self._combined(stored, self._non_persistent.names_in_memory(namespace))

    def reading_names(self, namespace: NamespaceName) -> Generator[None, None, Names]:
        """Return the full names of a namespace, sorted; read in steps."""
        stored = yield from self._persistent.reading_names(namespace)
        return self._combined(stored, self._non_persistent.names_in_memory(namespace))

    def _combined(self, stored: Names, others: Names) -> Names:
        if self._shown is None or self._shown[0] is not stored or self._shown[1] is not others:
            self._shown = stored, others, Names(others.texts + stored.texts, next(self._versions))
        return self._shown[2]
