"""``/admin/v2/broker-stats``: statistics of the broker as documents."""

from __future__ import annotations

from collections import defaultdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Never

from starlette.responses import JSONResponse

from magnetar.admin.exchange import AdminRoute, Context, large_answer, path_text, route
from magnetar.admin.models.bundles import bundle_of
from magnetar.admin.models.links import LinkTotals
from magnetar.admin.models.topics import TopicStats
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.admin.topic_service import DomainTopicOperations
    from magnetar.base.names import TopicName
    from magnetar.metadata.policies import ClusterData

_URLS = {
    "webServiceUrl": "serviceUrl",
    "webServiceUrlTls": "serviceUrlTls",
    "pulsarServiceUrl": "brokerServiceUrl",
    "pulsarServiceUrlTls": "brokerServiceUrlTls",
}
"""Names of the addresses of a broker in a load report."""

_URLS_OF_LISTENER = {
    "brokerServiceUrl": "brokerServiceUrl",
    "brokerServiceUrlTls": "brokerServiceUrlTls",
    "brokerHttpUrl": "serviceUrl",
    "brokerHttpsUrl": "serviceUrlTls",
}
"""Names of the addresses of a listener there."""

_MIB = 1 << 20

_Topics = dict[str, dict[str, dict[str, dict[str, TopicStats]]]]
"""Statistics by namespace, bundle, domain and topic."""

_Links = dict[str, dict[str, LinkTotals]]
"""Statistics of links by namespace and remote cluster."""

_ALLOCATORS = ("default", "ml-cache")

_ALLOCATOR = {
    "numDirectArenas": 0,
    "numHeapArenas": 0,
    "numThreadLocalCaches": 0,
    "normalCacheSize": 0,
    "smallCacheSize": 0,
    "usedDirectMemory": 0,
    "directArenas": [],
    "heapArenas": [],
}
"""There are no allocators of Java; only the memory in use is known."""


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for statistics of the broker."""
    handlers = _BrokerStats(context)
    root = "/admin/v2/broker-stats"
    return [
        route("GET", f"{root}/metrics", handlers.metrics, gives=list[dict[str, Any]]),
        route("GET", f"{root}/mbeans", handlers.mbeans, gives=list[dict[str, Any]]),
        route("GET", f"{root}/topics", handlers.topics, gives=_Topics),
        route("GET", f"{root}/destinations", handlers.topics, gives=_Topics),
        route("GET", f"{root}/replication", handlers.replication, gives=_Links),
        route("GET", f"{root}/load-report", handlers.load_report, gives=dict[str, Any]),
        route("GET", f"{root}/allocator-stats/{{allocator}}", handlers.allocator, gives=dict[str, Any], refuses=[406]),
        route("GET", f"{root}/bookieops", handlers.bookie_operations, gives=dict[str, Any]),
        route(
            "GET",
            f"{root}/broker-resource-availability/{{tenant}}/{{namespace}}",
            handlers.availability,
            gives=Never,
            refuses=[409],
        ),
    ]


class _BrokerStats:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    @large_answer
    async def metrics(self, _: Request) -> Response:
        """Return sums over the loaded topics of each namespace."""
        sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        async for topic, stats in self._loaded(StatsOptions(exclude_publishers=True, exclude_consumers=True)):
            found = sums[str(topic.namespace_name)]
            found["brk_in_rate"] += stats.msg_rate_in
            found["brk_in_tp_rate"] += stats.msg_throughput_in
            found["brk_out_rate"] += stats.msg_rate_out
            found["brk_out_tp_rate"] += stats.msg_throughput_out
            found["brk_storage_size"] += stats.storage_size
            found["brk_no_of_producers"] += stats.publishers_count
            found["brk_no_of_subscriptions"] += len(stats.subscriptions)
            links = stats.replication.values()
            found["brk_no_of_replicators"] += len(links)
            found["brk_msg_backlog"] += sum(each.msg_backlog for each in stats.subscriptions.values())
            found["brk_replication_backlog"] += sum(
                each.replication_backlog or 0 for each in stats.replication.values()
            )
        return JSONResponse(
            [{"metrics": dict(found), "dimensions": {"namespace": name}} for name, found in sorted(sums.items())]
        )

    def mbeans(self, _: Request) -> list[object]:
        return []

    @large_answer
    async def topics(self, _: Request) -> Response:
        """Return the statistics of the loaded topics, by namespace and bundle."""
        found: dict[str, dict[str, Any]] = {}
        async for topic, stats in self._loaded(StatsOptions()):
            bundles = self._context.policies(topic.namespace_name).bundles
            bundle = found.setdefault(str(topic.namespace_name), {}).setdefault(str(bundle_of(topic, bundles)), {})
            bundle.setdefault(topic.domain, {})[str(topic)] = stats
        return await self._context.answer(found)

    async def replication(self, _: Request) -> Response:
        """Return the statistics of the links, summed over the topics of each namespace."""
        return await self._context.answer(await self._service.in_slices(self._service.topics.link_totals()))

    @large_answer
    async def load_report(self, _: Request) -> Response:
        totals: dict[str, float] = defaultdict(float)
        bundles: dict[str, None] = {}
        async for topic, stats in self._loaded(StatsOptions(exclude_publishers=True, exclude_consumers=True)):
            totals["msgRateIn"] += stats.msg_rate_in
            totals["msgThroughputIn"] += stats.msg_throughput_in
            totals["msgRateOut"] += stats.msg_rate_out
            totals["msgThroughputOut"] += stats.msg_throughput_out
            totals["numProducers"] += stats.publishers_count
            totals["numTopics"] += 1
            bundle = bundle_of(topic, self._context.policies(topic.namespace_name).bundles)
            bundles[f"{topic.namespace_name}/{bundle}"] = None
        used, limit = self._service.memory()["total"]
        configuration, addresses = self._service.runtime_configuration(), self._service.addresses
        unknown = {"usage": 0.0, "limit": 0.0}
        counts = {name: int(totals[name]) for name in ("numTopics", "numProducers")}
        rates = {name: totals[name] for name in ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")}
        report = {
            **_urls(addresses.internal, _URLS),
            "persistentTopicsEnabled": configuration["enablePersistentTopics"] == "true",
            "nonPersistentTopicsEnabled": configuration["enableNonPersistentTopics"] == "true",
            "cpu": unknown,
            "memory": {"usage": used / _MIB, "limit": limit / _MIB},
            "directMemory": unknown,
            "bandwidthIn": unknown,
            "bandwidthOut": unknown,
            "lastStats": {},
            "numBundles": len(bundles),
            "bundles": list(bundles),
            "lastBundleGains": [],
            "lastBundleLosses": [],
            "brokerVersionString": self._service.version,
            "protocols": {},
            "advertisedListeners": {name: _urls(each, _URLS_OF_LISTENER) for name, each in addresses.listeners.items()},
            "loadReportType": "LocalBrokerData",
        }
        return JSONResponse(report | counts | rates)

    def allocator(self, request: Request) -> dict[str, Any]:
        name = path_text(request, "allocator")
        if name not in _ALLOCATORS:
            raise AdminError(HTTPStatus.NOT_ACCEPTABLE, f"Invalid allocator name : {name}")
        used, _ = self._service.memory()["total"]
        return {**_ALLOCATOR, "usedHeapMemory": used}

    def bookie_operations(self, _: Request) -> dict[str, Any]:
        return {}

    def availability(self, _: Request) -> None:
        raise AdminError(HTTPStatus.CONFLICT, "The load manager does not support this operation")

    async def _loaded(self, options: StatsOptions) -> AsyncIterator[tuple[TopicName, TopicStats]]:
        """Yield the loaded topics with their statistics; topics that are unloaded meanwhile are omitted."""
        domains: tuple[DomainTopicOperations, ...] = (self._service.topics, self._service.non_persistent)
        for topics in domains:
            async for topic in self._context.in_turn(sorted(topics.open_names(), key=str)):
                if topics.is_loaded(topic):
                    yield topic, await topics.stats(topic, options)


def _urls(addresses: ClusterData, names: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs of open ports by their ``names`` in a load report, which are those of addresses."""
    urls = {name: getattr(addresses, address) for name, address in names.items()}
    return {name: url for name, url in urls.items() if url}
