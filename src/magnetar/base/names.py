"""Names of namespaces and topics, as Pulsar spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX, Limit

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"

_DOMAINS = (PERSISTENT, NON_PERSISTENT)
_NAMED_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = re.compile(r"(?P<base>.+)-partition-(?P<index>0|[1-9][0-9]{0,9})")
_SHOWN_MAX = 100
"""Maximum number of characters of a name in an error."""


def without_partition(name: str) -> str:
    """Return the partitioned topic of the partition ``name``, full or local; ``name`` itself if it is no partition."""
    match = _PARTITION.fullmatch(name)
    return match["base"] if match else name


def is_named_entity(name: str) -> bool:
    """Return whether ``name`` is valid for a cluster, tenant or namespace: letters, digits and ``-=:._`` only."""
    return _NAMED_ENTITY.fullmatch(name) is not None


def is_longer(name: str, length_max: int) -> bool:
    """Return whether a name has more than ``length_max`` bytes in UTF-8."""
    return len(name) > length_max or (not name.isascii() and len(name.encode()) > length_max)


def too_long(kind: str, name: str, length_max: int, limit: Limit = Limit.NAME_LENGTH) -> str:
    """Return the error text for a too long name of a ``kind``, with the limit."""
    return f"the name of a {kind} may have {length_max} bytes ({limit}): {shown(name)}"


def check_length(kind: str, name: str, length_max: int) -> None:
    """Raise RequestError with NotAllowedError if the name of a ``kind`` has more than ``length_max`` bytes."""
    if is_longer(name, length_max):
        raise RequestError(ServerError.NotAllowedError, too_long(kind, name, length_max), Limit.NAME_LENGTH)


def check_cluster_name(name: str) -> None:
    """Raise RequestError with NotAllowedError for an invalid cluster name."""
    if is_longer(name, CLUSTER_NAME_LENGTH_MAX):
        limit = Limit.CLUSTER_NAME_LENGTH
        message = too_long("cluster", name, CLUSTER_NAME_LENGTH_MAX, limit)
        raise RequestError(ServerError.NotAllowedError, message, limit)
    if not is_named_entity(name):
        message = f"{shown(name)} is no name of a cluster: letters, digits and -=:._ only"
        raise RequestError(ServerError.NotAllowedError, message)


def shown(name: str) -> str:
    """Quote a name for an error or the log; a long name is truncated."""
    return repr(name) if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]!r}..."


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """``tenant/namespace``."""

    tenant: str
    namespace: str

    def __str__(self) -> str:
        """``tenant/namespace``."""
        return f"{self.tenant}/{self.namespace}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``tenant/namespace``; raises InvalidTopicNameError with the text."""
        parts = text.split("/")
        if len(parts) != 2 or not all(map(is_named_entity, parts)):  # noqa: PLR2004 - tenant and namespace
            message = f"invalid namespace name {shown(text)}: expected tenant/namespace"
            raise InvalidTopicNameError(message)
        return cls(*parts)


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """``domain://tenant/namespace/local_name``; a partition is a topic of its own, ``…-partition-<i>``."""

    domain: str
    tenant: str
    namespace: str
    local_name: str

    def __str__(self) -> str:
        """Return the full name, with its domain."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a full name, or a short one (``topic``, ``tenant/namespace/topic``), which is expanded as in Pulsar.

        Raises InvalidTopicNameError with the text.
        """
        domain, separator, rest = text.partition("://")
        if not separator:
            domain, rest = PERSISTENT, text if text.count("/") > 1 else f"public/default/{text}"
        parts = rest.split("/", 2)
        valid = (
            domain in _DOMAINS
            and len(parts) == 3  # noqa: PLR2004 - tenant, namespace, topic
            and all(map(is_named_entity, parts[:2]))
            and parts[2].strip() != ""
            and "/" not in parts[2]
        )
        if not valid:
            message = f"invalid topic name {shown(text)}: expected persistent://tenant/namespace/topic"
            raise InvalidTopicNameError(message)
        return cls(domain, *parts)

    @property
    def namespace_name(self) -> NamespaceName:
        """The namespace of the topic."""
        return NamespaceName(self.tenant, self.namespace)

    @property
    def is_persistent(self) -> bool:
        """Whether the topic's messages are stored."""
        return self.domain == PERSISTENT

    @property
    def partition_index(self) -> int:
        """Index of the partition; -1 if the topic is no partition."""
        match = _PARTITION.fullmatch(self.local_name)
        return int(match["index"]) if match else -1

    @property
    def partitioned_topic(self) -> TopicName:
        """The partitioned topic of this partition; the topic itself if it is no partition."""
        base = without_partition(self.local_name)
        return self if base == self.local_name else TopicName(self.domain, self.tenant, self.namespace, base)

    def partition(self, index: int) -> TopicName:
        """Return the name of partition ``index``, starting at 0."""
        return TopicName(self.domain, self.tenant, self.namespace, f"{self.local_name}-partition-{index}")

    def parts(self, partitions: int) -> list[TopicName]:
        """Return the names of so many partitions; the topic itself if there are none."""
        return [self.partition(index) for index in range(partitions)] or [self]
