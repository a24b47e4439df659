"""The sorted names of the topics of namespaces, cached in memory and updated by watches."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from magnetar.base.names import PERSISTENT, NamespaceName, TopicName

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from magnetar.metadata.store import Change, MetadataStore

NAMES_CACHED_MAX = 100_000
"""Maximum number of cached names, about 150 bytes each, in addition to the most recently used namespace."""


class Names(NamedTuple):
    """The full names of the topics of a namespace, sorted."""

    texts: tuple[str, ...]
    version: int
    """Differs from the versions of other names, of any namespace."""


class _Listing:
    """The topics of one namespace."""

    __slots__ = ("_shown", "changed", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        """Full names, sorted when the listing is complete."""
        self.changed: dict[str, None] = {}
        """Names, as they are in paths, that came or went while the listing was being read."""
        self._shown: Names | None = None
        """The names as they were returned last; None if they have changed since."""

    def names(self, versions: Iterator[int]) -> Names:
        """Return the names; the same object until a topic comes or goes."""
        if self._shown is None:
            self._shown = Names(tuple(self.texts), next(versions))
        return self._shown

    def put(self, text: str, *, is_there: bool) -> int:
        """Add or remove a name of a complete listing; return by how much the number of names changes."""
        at = bisect_left(self.texts, text)
        is_listed = at < len(self.texts) and self.texts[at] == text
        if is_there == is_listed:
            return 0
        self._shown = None
        if is_there:
            self.texts.insert(at, text)
            return 1
        del self.texts[at]
        return -1


class TopicNames:
    """The topics of a namespace that have a value at or below their path.

    A namespace is read from the store once, in steps. Afterwards a watch reports changes.
    """

    def __init__(self, store: MetadataStore, root: str) -> None:
        """Read ``<root>/<tenant>/<namespace>/persistent/<topic>`` of ``store``."""
        self._store = store
        self._root = root
        self._listings: OrderedDict[NamespaceName, _Listing] = OrderedDict()
        """Complete listings, the least recently used first."""
        self._names = 0
        """Number of names in complete listings."""
        self._being_read: dict[_Listing, NamespaceName] = {}
        self._versions = count()
        store.watch(root, self._note)

    def each(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the persistent topics of ``namespace``, in no particular order, while topics come and go."""
        for name in self._store.each_child(self._parent(namespace)):
            yield TopicName(PERSISTENT, namespace.tenant, namespace.namespace, unquote_plus(name))

    def in_memory(self, namespace: NamespaceName) -> Names | None:
        """Return what ``reading`` would, if the names are in memory; otherwise None."""
        listing = self._listings.get(namespace)
        if listing is None:
            return None
        self._listings.move_to_end(namespace)
        return listing.names(self._versions)

    def reading(self, namespace: NamespaceName) -> Generator[None, None, Names]:
        """Return the names of the persistent topics of ``namespace``, read in steps.

        The same object is returned until a topic comes or goes, except for a namespace without topics.
        """
        found = self.in_memory(namespace)
        if found is not None:
            return found
        listing = _Listing()
        self._being_read[listing] = namespace
        try:
            for name in self._store.each_child(self._parent(namespace)):
                listing.texts.append(_text(namespace, name))
                yield
            listing.texts.sort()
            while listing.changed:
                self._update(listing, namespace, listing.changed.popitem()[0])
                yield
        finally:
            del self._being_read[listing]
        if listing.texts:  # clients may ask for namespaces that do not exist
            self._keep(namespace, listing)
        return listing.names(self._versions)

    def _keep(self, namespace: NamespaceName, listing: _Listing) -> None:
        earlier = self._listings.pop(namespace, None)  # another reader may have been faster
        self._listings[namespace] = listing
        self._count(len(listing.texts) - (0 if earlier is None else len(earlier.texts)))

    def _count(self, names: int) -> None:
        """Count names that are added to complete listings, and evict the listings that are too many with them."""
        self._names += names
        while self._names > NAMES_CACHED_MAX and len(self._listings) > 1:
            _, evicted = self._listings.popitem(last=False)
            self._names -= len(evicted.texts)

    def _note(self, change: Change) -> None:
        if change.before is not None and change.after is not None:
            return  # nothing came or went
        tenant, _, rest = change.path.removeprefix(f"{self._root}/").partition("/")
        local, _, rest = rest.partition("/")
        domain, _, rest = rest.partition("/")
        if domain != PERSISTENT:
            return
        namespace, name = NamespaceName(tenant, local), rest.partition("/")[0]
        listing = self._listings.get(namespace)
        if listing is not None:
            self._count(self._update(listing, namespace, name))
        for each, of in self._being_read.items():
            if of == namespace:
                each.changed[name] = None

    def _update(self, listing: _Listing, namespace: NamespaceName, name: str) -> int:
        path = f"{self._parent(namespace)}/{name}"
        is_there = self._store.get(path) is not None or next(self._store.each_child(path), None) is not None
        return listing.put(_text(namespace, name), is_there=is_there)

    def _parent(self, namespace: NamespaceName) -> str:
        return f"{self._root}/{namespace}/{PERSISTENT}"


def _text(namespace: NamespaceName, name: str) -> str:
    return f"{PERSISTENT}://{namespace}/{unquote_plus(name)}"
