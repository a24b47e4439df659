"""The names of the topics of namespaces, kept sorted in memory while topics come and go."""

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
"""Topics whose names stay in memory, some 300 bytes each, beside the namespace that was asked for last."""


@dataclass(slots=True)
class _Listing:
    """The topics of one namespace. Both lists have one order: all names begin alike."""

    names: list[TopicName]
    texts: list[str]
    shown: tuple[str, ...] | None = None
    """The texts as they were handed out; None if they have changed since."""
    changed: set[str] = field(default_factory=set)
    """Names, as they are in paths, below which something was stored or removed since the listing was right."""


class TopicNames:
    """Which topics of a namespace have something stored at or below their path.

    A namespace is read from the store once. From then on the store tells of changes, and only the topics that changed
    are looked at again.
    """

    def __init__(self, store: MetadataStore, root: str) -> None:
        """Look at ``<root>/<tenant>/<namespace>/persistent/<topic>`` of ``store``."""
        self._store = store
        self._root = root
        self._listings: OrderedDict[NamespaceName, _Listing] = OrderedDict()
        """The one that was asked for last is last."""
        store.watch(root, self._note)

    def of_namespace(self, namespace: NamespaceName) -> list[TopicName]:
        """The persistent topics of ``namespace``, sorted."""
        return self._listing(namespace).names.copy()

    def texts_of_namespace(self, namespace: NamespaceName) -> tuple[str, ...]:
        """As ``of_namespace``, the full names as text. The same tuple is returned until a topic comes or goes."""
        listing = self._listing(namespace)
        if listing.shown is None:
            listing.shown = tuple(listing.texts)
        return listing.shown

    def _listing(self, namespace: NamespaceName) -> _Listing:
        listing = self._listings.get(namespace)
        if listing is None:
            listing = self._read(namespace)
            if not listing.names:  # anybody may ask for any name
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
