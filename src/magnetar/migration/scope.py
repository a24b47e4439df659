"""The part of a cluster that a migration moves. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import NamespaceName, TopicName, is_named_entity

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEPARATOR = ", "

_SYSTEM_TENANT = "pulsar"
"""The tenant of namespaces that brokers create for themselves."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A tenant, or some of its namespaces and topics."""

    tenant: str
    namespaces: tuple[NamespaceName, ...] = ()
    topics: tuple[TopicName, ...] = ()
    """Topics without partitions, and partitioned topics."""

    def __str__(self) -> str:
        """Name the tenant, or its parts; see ``scope_named``."""
        return _SEPARATOR.join(self.parts) or self.tenant

    @property
    def parts(self) -> list[str]:
        """The namespaces and topics; none if all of the tenant moves."""
        return [*map(str, self.namespaces), *map(str, self.topics)]

    @property
    def namespaces_of_topics(self) -> list[NamespaceName]:
        """The namespaces of which only some topics move."""
        return sorted({topic.namespace_name for topic in self.topics})

    def includes(self, topic: TopicName) -> bool:
        """Return whether a topic or a partition of the tenant moves."""
        return not self.parts or topic.namespace_name in self.namespaces or topic.partitioned_topic in self.topics


def scope_named(tenant: str, text: str) -> Scope:
    """Return the scope of a tenant with a name; the inverse of ``str``."""
    begins = f"(?:persistent://)?{re.escape(tenant)}/"  # names of topics may contain the separator
    parts = [] if text == tenant else re.split(f"{_SEPARATOR}(?={begins})", text)
    namespaces = tuple(NamespaceName.parse(each) for each in parts if "://" not in each)
    return Scope(tenant, namespaces, tuple(TopicName.parse(each) for each in parts if "://" in each))


def scope_of(tenant: str, namespaces: Sequence[NamespaceName] = (), topics: Sequence[TopicName] = ()) -> Scope:
    """Return the scope of a migration; raises ConfigurationError if a name does not belong to the tenant."""
    if not is_named_entity(tenant) or tenant == _SYSTEM_TENANT:
        message = f"{tenant!r} is no tenant that can be moved"
        raise ConfigurationError(message)
    named: list[NamespaceName | TopicName] = [*namespaces, *topics]
    for each in named:
        if each.tenant != tenant:
            message = f"{each} does not belong to the tenant {tenant}"
            raise ConfigurationError(message)
    for topic in topics:
        if topic.partition_index >= 0:
            message = f"{topic} is a partition\nhint: name the topic: {topic.partitioned_topic}"
            raise ConfigurationError(message)
        if not topic.is_persistent:
            message = f"{topic} stores no messages, so there is nothing to move"
            raise ConfigurationError(message)
    single = tuple(sorted({each for each in topics if each.namespace_name not in namespaces}))
    return Scope(tenant, tuple(sorted(set(namespaces))), single)
