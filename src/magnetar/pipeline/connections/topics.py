"""Which topics the served namespaces have, asked over the service connection."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.pipeline import limits
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.pipeline.connections.cluster import BrokerConnection
    from magnetar.pipeline.connections.loop import Loop


class TopicWatch:
    """Polls one cluster for the persistent topics of some namespaces."""

    def __init__(self, loop: Loop, service: BrokerConnection, on_topics: Callable[[str, frozenset[str]], None]) -> None:
        """Call ``on_topics`` with a namespace and all its topics whenever they changed."""
        self._loop = loop
        self._service = service
        self._on_topics = on_topics
        self._hashes: dict[str, str] = {}

    def start(self) -> None:
        """Poll from now on."""
        self._loop.call_later(limits.TOPICS_POLL_SECONDS, self.start)
        self.poll()

    def serve(self, namespaces: Iterable[str]) -> None:
        """Watch exactly these namespaces."""
        self._hashes = {namespace: self._hashes.get(namespace, "") for namespace in namespaces}
        self.poll()

    def poll(self) -> None:
        """Ask now."""
        if self._service.up:
            for namespace, topics_hash in self._hashes.items():
                question = partial(_question, namespace, topics_hash)
                self._service.request(question, partial(self._answered, namespace))

    def _answered(self, namespace: str, reply: pb.BaseCommand | None) -> None:
        if reply is None or reply.type != pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE:
            return
        answer = reply.getTopicsOfNamespaceResponse
        if namespace in self._hashes and answer.changed and answer.topics_hash != self._hashes[namespace]:
            self._hashes[namespace] = answer.topics_hash
            self._on_topics(namespace, frozenset(answer.topics))


def _question(namespace: str, topics_hash: str, request_id: int) -> bytes:
    return commands.encode(
        pb.CommandGetTopicsOfNamespace(
            request_id=request_id,
            namespace=namespace,
            mode=pb.CommandGetTopicsOfNamespace.PERSISTENT,
            topics_hash=topics_hash,
        ),
    )


def namespace_of(topic: str) -> str:
    """``tenant/namespace`` of a full topic name, cut out without parsing it: this runs for every topic."""
    return topic.partition("://")[2].rpartition("/")[0]
