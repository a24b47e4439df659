"""The sorted names of the topics of namespaces, cached in memory and updated by watches."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from magnetar.base.names import PERSISTENT, NamespaceName, TopicName

if TYPE_CHECKING:
    from magnetar.metadata.store import Change, MetadataStore

NAMES_CACHED_MAX = 100_000
"""Maximum number of cached names, about 300 bytes each, in addition to the most recently used namespace."""


@dataclass(slots=True)
class _Listing:
    """The topics of one namespace. Both lists have the same order, since all full names have the same prefix."""

    names: list[TopicName]
    texts: list[str]
    shown: tuple[str, ...] | None = None
    """The names as text; None after a change."""
    changed: set[str] = field(default_factory=set)
    """Names in paths below which values changed since the listing was updated."""


class TopicNames:
    """The topics of a namespace that have a value at or below their path.

    A namespace is read from the store once. Afterwards a watch reports changes, and only the changed topics are checked
    again.
    """

    def __init__(self, store: MetadataStore, root: str) -> None:
        """Read ``<root>/<tenant>/<namespace>/persistent/<topic>`` of ``store``."""
        self._store = store
        self._root = root
        self._listings: OrderedDict[NamespaceName, _Listing] = OrderedDict()
        """Least recently used first."""
        store.watch(root, self._note)

    def of_namespace(self, namespace: NamespaceName) -> list[TopicName]:
        """Return the persistent topics of ``namespace``, sorted."""
        return self._listing(namespace).names.copy()

    def texts_of_namespace(self, namespace: NamespaceName) -> tuple[str, ...]:
        """Return the full names of ``of_namespace`` as text. The same tuple is returned until the topics change."""
        listing = self._listing(namespace)
        if listing.shown is None:
            listing.shown = tuple(listing.texts)
        return listing.shown

    def _listing(self, namespace: NamespaceName) -> _Listing:
        listing = self._listings.get(namespace)
        if listing is None:
            listing = self._read(namespace)
            if not listing.names:  # clients may ask for any name; do not cache empty listings
                return listing
            self._listings[namespace] = listing
        else:
            self._listings.move_to_end(namespace)
            for name in sorted(listing.changed):
                self._update(listing, namespace, name)
            listing.changed.clear()
        names = sum(len(each.names) for each in self._listings.values())
        while names > NAMES_CACHED_MAX and len(self._listings) > 1:
            _, evicted = self._listings.popitem(last=False)
            names -= len(evicted.names)
        return listing

    def _read(self, namespace: NamespaceName) -> _Listing:
        names = sorted(_topic(namespace, name) for name in self._store.children(self._parent(namespace)))
        return _Listing(names, list(map(str, names)))

    def _update(self, listing: _Listing, namespace: NamespaceName, name: str) -> None:
        topic, path = _topic(namespace, name), f"{self._parent(namespace)}/{name}"
        at = bisect_left(listing.names, topic)
        is_listed = at < len(listing.names) and listing.names[at] == topic
        is_there = self._store.get(path) is not None or bool(self._store.children(path))
        if is_there and not is_listed:
            listing.names.insert(at, topic)
            listing.texts.insert(at, str(topic))
            listing.shown = None
        elif is_listed and not is_there:
            del listing.names[at]
            del listing.texts[at]
            listing.shown = None

    def _note(self, change: Change) -> None:
        tenant, _, rest = change.path.removeprefix(f"{self._root}/").partition("/")
        namespace, _, rest = rest.partition("/")
        domain, _, rest = rest.partition("/")
        listing = self._listings.get(NamespaceName(tenant, namespace))
        if listing is not None and domain == PERSISTENT:
            listing.changed.add(rest.partition("/")[0])

    def _parent(self, namespace: NamespaceName) -> str:
        return f"{self._root}/{namespace}/{PERSISTENT}"


def _topic(namespace: NamespaceName, name: str) -> TopicName:
    return TopicName(PERSISTENT, namespace.tenant, namespace.namespace, unquote_plus(name))
