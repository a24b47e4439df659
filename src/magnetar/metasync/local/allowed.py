"""The effect of ``allowedClusters`` of tenants: a cluster holds no namespaces of a tenant that does not allow it.

It drops them without a deletion in the other clusters, and gets them again when the tenant allows it. A namespace with
topics stays: its messages would be out of reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.resources import PARTITIONED_TOPICS, POLICIES, TOPIC_POLICIES
from magnetar.metasync.local.decisions import applied, dropped
from magnetar.metasync.local.marks import WHOLE, Reason
from magnetar.metasync.places import Resource, resource_at
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from magnetar.metadata.store import Delete, Put
    from magnetar.metasync.local.holdings import Holdings

_CONTENTS = (PARTITIONED_TOPICS, TOPIC_POLICIES)


class AllowedClusters:
    """Applies the field. Used on the event loop's thread."""

    def __init__(self, holdings: Holdings) -> None:
        """Apply it to ``holdings``."""
        self._holdings = holdings

    def settle(self) -> Generator[None, None, list[str]]:
        """Drop and restore what the tenants ask for now, in steps of one namespace or resource.

        Returns the namespaces that stay because they have topics, although their tenants do not allow this cluster.
        """
        for namespace in self._forbidden():
            if not self._holdings.has_topics(namespace):
                self._drop(namespace)
            yield
        for resource in self._holdings.marked():
            self._restore(resource)
            yield
        return [namespace.name for namespace in self._forbidden() if self._holdings.has_topics(namespace)]

    def _forbidden(self) -> Iterator[Resource]:
        """Yield the namespaces here whose tenants do not allow this cluster; anything may be stored meanwhile."""
        store = self._holdings.store
        for tenant in store.children(POLICIES):
            if self._holdings.allows(tenant):
                continue
            for name in store.children(f"{POLICIES}/{tenant}"):
                namespace = Resource(ResourceType.NAMESPACES, f"{tenant}/{name}")
                if self._holdings.rules.covers(namespace):
                    yield namespace

    def _drop(self, namespace: Resource) -> None:
        paths = [path for root in _CONTENTS for path, _ in self._holdings.store.below(f"{root}/{namespace.name}")]
        found = [namespace, *(each for path in paths if (each := resource_at(path)) is not None)]
        operations: list[Put | Delete] = []
        for resource in found:
            held = self._holdings.held(resource)
            operations += self._holdings.operations(held, dropped(held, self._holdings.circumstances(resource)))
        if operations:
            self._holdings.store.commit(operations)

    def _restore(self, resource: Resource) -> None:
        held = self._holdings.held(resource)
        mark = held.marks.get(WHOLE)
        if mark is not None and mark.reason is Reason.DROPPED and self._holdings.allows(resource.tenant):
            operations = self._holdings.operations(held, applied(held, self._holdings.circumstances(resource)))
            if operations:
                self._holdings.store.commit(operations)
