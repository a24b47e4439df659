"""The exposed metrics of a fake broker on which every metric has a value."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.metrics.exposition import exposition
from magnetar.admin.metrics.options import MetricsOptions
from magnetar.base.limits import Limit
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service

Sample = tuple[str, dict[str, str], float]

OBS = TopicName.parse("persistent://nyc/flights/obs")

ALL = MetricsOptions(by_consumer=True, by_producer=True)


def fake_broker(options: MetricsOptions = ALL, *topics: TopicName) -> FakeAdminService:
    """Return a broker with these topics; by default one."""
    service = new_service()
    service.metrics_options = options
    for name in topics or (OBS,):
        service.topics.held[name] = FakeTopic([b""] * 5, {"sub": FakeSubscription(Position(3, 1), replicated=True)})
    service.metadata_sync = FakeSynchronizer()
    service.hits.hit(Limit.HANDSHAKE_FRAME_SIZE)
    service.unloadable[TopicName.parse("persistent://nyc/flights/lost")] = "the log ends at 3:8"
    return service


def exposed(options: MetricsOptions = ALL, *topics: TopicName) -> list[Sample]:
    """Return the samples of ``fake_broker``."""
    families = text_string_to_metric_families(b"".join(asyncio.run(exposition(fake_broker(options, *topics)))).decode())
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]
