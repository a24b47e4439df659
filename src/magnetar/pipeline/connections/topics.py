"""The topics of the namespaces that a cluster replicates, over the connection to the cluster's URL.

A broker of Magnetar reports the namespaces, and when their topics change. Other brokers are polled for the topics of
namespaces that are known otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.link_reports import watch_links
from magnetar.pipeline import limits
from magnetar.wire import commands

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from magnetar.client.client import PulsarClient
    from magnetar.client.connection import PulsarConnection
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class TopicWatch:
    """Watches one cluster for the persistent topics of some namespaces."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: PulsarClient,
        on_topics: Callable[[str, frozenset[str]], None],
        on_namespaces: Callable[[frozenset[str]], None],
    ) -> None:
        """Create a watch.

        It calls ``on_namespaces`` with all namespaces after a change of them, and ``on_topics`` with a namespace and
        all its topics after a change of these.
        """
        self._loop = loop
        self._client = client
        self._on_topics = on_topics
        self._on_namespaces = on_namespaces
        self._hashes: dict[str, str] = {}
        self._reported: dict[str, None] | None = None
        """All namespaces that this connection has reported until now; None unless the broker reports them."""
        self._next_at: dict[str, float] = {}
        """Times from which the topics of reported namespaces may be requested again."""
        self._due: dict[str, asyncio.TimerHandle] = {}
        """Requests for the topics of reported namespaces that follow later."""
        self._asking: dict[str, bool] = {}
        """Reported namespaces whose topics are being requested, and whether they have changed since."""
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Start polling the topics of a broker that does not report changes."""
        self._loop.call_later(limits.TOPICS_POLL_SECONDS, self.start)
        if self._reported is None:
            self._poll()

    def close(self) -> None:
        """Stop all requests."""
        for task in self._tasks:
            task.cancel()
        for timer in self._due.values():
            timer.cancel()

    def connected(self, target: str) -> bool:
        """Handle a new connection; return whether the broker reports the namespaces that it replicates to ``target``.

        Otherwise they must be passed to ``serve``.
        """
        service = self._client.service
        assert service is not None, "the connection is open"
        if not service.peer_features.supports_link_watches:
            self._reported = None
            self._poll()
            return False
        self._reported = {}
        self._start(self._watch(service, target), f"watch of the links to {target}")
        return True

    def release(self) -> None:
        """Forget all namespaces: the broker reports the links of each topic."""
        self._reported = None
        self._replace(())

    def serve(self, namespaces: Iterable[str]) -> None:
        """Replace the watched namespaces, unless the broker reports them."""
        if self._reported is None:
            self._replace(namespaces)
            self._poll()

    def _replace(self, namespaces: Iterable[str]) -> None:
        hashes = {namespace: self._hashes.get(namespace, "") for namespace in namespaces}
        if hashes.keys() != self._hashes.keys():
            self._hashes = hashes
            self._on_namespaces(frozenset(hashes))

    def _poll(self) -> None:
        service = self._client.service
        if service is not None:
            for namespace in self._hashes:
                self._start(self._ask(service, namespace), f"topics of {namespace}")

    # -- a broker that reports changes ----------------------------------------------------------------------------

    async def _watch(self, service: PulsarConnection, target: str) -> None:
        try:
            await watch_links(service, target, lambda report: self._changed(service, report))
        except (MagnetarError, OSError):
            service.close()  # the next connection watches again

    def _changed(self, service: PulsarConnection, report: pb.CommandLinksChanged) -> None:
        """Handle a report. Namespaces of the connection before remain until this one has reported all of its own."""
        if self._reported is None or service is not self._client.service:
            return
        self._reported.update(dict.fromkeys(report.added))
        for namespace in report.removed:
            self._reported.pop(namespace, None)
            self._next_at.pop(namespace, None)
        if not report.has_more:
            self._replace(self._reported)
        else:
            self._replace({**dict.fromkeys(self._hashes), **self._reported})
        for namespace in (*report.added, *report.topics_changed):
            self._ask_soon(namespace)

    def _ask_soon(self, namespace: str) -> None:
        """Request the topics of a namespace now, or when the interval since the last answer is over."""
        if namespace in self._asking:
            self._asking[namespace] = True
        elif namespace not in self._due:
            due_at = self._next_at.get(namespace, 0.0)
            self._due[namespace] = self._loop.call_at(due_at, self._ask_now, namespace)

    def _ask_now(self, namespace: str) -> None:
        del self._due[namespace]
        service = self._client.service
        if service is not None and namespace in self._hashes:
            self._asking[namespace] = False
            self._start(self._ask_reported(service, namespace), f"topics of {namespace}")

    async def _ask_reported(self, service: PulsarConnection, namespace: str) -> None:
        topics = await self._ask(service, namespace)
        must_repeat = self._asking.pop(namespace) or topics is None
        if topics is None:
            interval_s = limits.TOPICS_POLL_SECONDS
        else:
            interval_s = limits.TOPICS_INTERVAL_SECONDS + limits.TOPICS_INTERVAL_PER_TOPIC_SECONDS * topics
        self._next_at[namespace] = self._loop.time() + interval_s
        if must_repeat and self._reported is not None:
            self._ask_soon(namespace)

    # -- requests -------------------------------------------------------------------------------------------------

    async def _ask(self, service: PulsarConnection, namespace: str) -> int | None:
        """Request the topics of one namespace, independently of the others.

        Returns the number of names in the answer, which is 0 if they are the same; None without an answer.
        """
        topics_hash = self._hashes.get(namespace)
        try:
            reply = await service.request(
                lambda request_id: commands.get_topics_of_namespace(
                    request_id=request_id, namespace=namespace, topics_hash=topics_hash
                )
            )
        except (MagnetarError, OSError):
            return None  # it is repeated: by the next poll, after the interval, or with the next connection
        answer = reply.getTopicsOfNamespaceResponse
        if namespace in self._hashes and answer.changed and answer.topics_hash != self._hashes[namespace]:
            self._hashes[namespace] = answer.topics_hash
            self._on_topics(namespace, frozenset(answer.topics))
        return len(answer.topics)

    def _start(self, work: Coroutine[Any, Any, object], name: str) -> None:
        task = start_task(self._loop, work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def namespace_of(topic: str) -> str:
    """Return ``tenant/namespace`` of a full topic name. It slices the text, because it runs for every topic."""
    return topic.partition("://")[2].rpartition("/")[0]
