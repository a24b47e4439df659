"""The table of commands: what each one of the binary protocol requires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from magnetar.authorization.internal_names import cluster_of
from magnetar.authorization.needs import ANYONE, OWN, REPLICATOR, Need, Resource, Scope, on_namespace, on_topic
from magnetar.base.names import NamespaceName, TopicName
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One requirement of a command. The other values are names of fields of its body."""

    need: Need
    refusal: str = ""
    """Text of the error; Pulsar's, if Pulsar checks the command."""
    topic: str = ""
    namespace: str = ""
    subscription: str = ""
    cluster: str = ""
    """Field with the cluster for which a replicator acts."""
    internal: str = ""
    """Field with a name of a producer or subscription; an internal name requires a replicator instead."""
    only_with: str = ""
    """Field without which the row does not apply."""


_OWN: Final = (Row(need=OWN),)
_ANYONE: Final = (Row(need=ANYONE),)
_LINKS: Final = "Client is no replicator of this cluster (replicatorRoles)"

COMMANDS: Final[Mapping[int, tuple[Row, ...]]] = MappingProxyType(
    {
        pb.BaseCommand.CONNECT: _ANYONE,
        pb.BaseCommand.AUTH_RESPONSE: _ANYONE,
        pb.BaseCommand.LOOKUP: (
            Row(
                need=on_topic("LOOKUP", is_for_links=True), refusal="Client is not authorized to Lookup", topic="topic"
            ),
        ),
        pb.BaseCommand.PARTITIONED_METADATA: (
            Row(
                need=on_topic("LOOKUP", is_for_links=True),
                refusal="Client is not authorized to Get Partition Metadata",
                topic="topic",
            ),
        ),
        pb.BaseCommand.GET_TOPICS_OF_NAMESPACE: (
            Row(
                need=on_namespace("GET_TOPICS", is_for_links=True),
                refusal="Client is not authorized to GetTopicsOfNamespace",
                namespace="namespace",
            ),
        ),
        # Apache Pulsar checks neither of the two.
        pb.BaseCommand.GET_SCHEMA: (
            Row(
                need=on_topic("GET_METADATA", is_for_links=True),
                refusal="Client is not authorized to GetSchema",
                topic="topic",
            ),
        ),
        pb.BaseCommand.GET_OR_CREATE_SCHEMA: (
            Row(
                need=on_topic("PRODUCE"),
                refusal="Client is not authorized to GetOrCreateSchema",
                topic="topic",
                internal="producerName",
            ),
        ),
        pb.BaseCommand.PRODUCER: (
            Row(
                need=on_topic("PRODUCE"),
                refusal="Client is not authorized to Produce",
                topic="topic",
                internal="producer_name",
            ),
            Row(
                need=on_topic("SUBSCRIBE"),
                refusal="Client is not authorized to Produce",
                topic="topic",
                subscription="initial_subscription_name",
                internal="initial_subscription_name",
                only_with="initial_subscription_name",
            ),
        ),
        pb.BaseCommand.SUBSCRIBE: (
            Row(
                need=on_topic("CONSUME"),
                refusal="Client is not authorized to subscribe",
                topic="topic",
                subscription="subscription",
                internal="subscription",
            ),
        ),
        pb.BaseCommand.WATCH_LINKS: (Row(need=REPLICATOR, refusal=_LINKS, cluster="target"),),
        pb.BaseCommand.CARRY_LINKS: (Row(need=REPLICATOR, refusal=_LINKS, cluster="target"),),
        pb.BaseCommand.WATCH_LOSSES: (Row(need=REPLICATOR, refusal=_LINKS),),
        pb.BaseCommand.SEND: _OWN,
        pb.BaseCommand.CLOSE_PRODUCER: _OWN,
        pb.BaseCommand.FLOW: _OWN,
        pb.BaseCommand.ACK: _OWN,
        pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: _OWN,
        pb.BaseCommand.UNSUBSCRIBE: _OWN,
        pb.BaseCommand.SEEK: _OWN,
        pb.BaseCommand.GET_LAST_MESSAGE_ID: _OWN,
        pb.BaseCommand.CONSUMER_STATS: _OWN,
        pb.BaseCommand.CLOSE_CONSUMER: _OWN,
    }
)
"""Rows by type. PING and PONG never reach a handler."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A requirement of one received command."""

    need: Need
    resource: Resource
    refusal: str


def demands(kind: int, body: Any) -> Iterator[Demand]:  # noqa: ANN401 - the body of any command
    """Yield what a command requires; nothing for a command without a row, which the broker does not support.

    Raises InvalidTopicNameError.
    """
    for row in COMMANDS.get(kind, ()):
        if row.need.scope in (Scope.ANYONE, Scope.OWN) or (row.only_with and not getattr(body, row.only_with)):
            continue
        yield _demand(row, body)


def _demand(row: Row, body: Any) -> Demand:  # noqa: ANN401 - the body of any command
    cluster = cluster_of(getattr(body, row.internal)) if row.internal else None
    if cluster is not None:
        return Demand(REPLICATOR, Resource(cluster=cluster), _LINKS)
    resource = Resource()
    if row.topic:
        subscription = getattr(body, row.subscription) if row.subscription else ""
        resource = Resource.of_topic(TopicName.parse(getattr(body, row.topic)), subscription)
    if row.namespace:
        resource = Resource.of_namespace(NamespaceName.parse(getattr(body, row.namespace)))
    if row.cluster:
        resource = replace(resource, cluster=getattr(body, row.cluster))
    return Demand(row.need, resource, row.refusal)
