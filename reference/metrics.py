"""The page of a broker's metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.metrics.authentication import authentication_metrics
from magnetar.admin.metrics.clients import CONSUMER, PRODUCER
from magnetar.admin.metrics.exposition import exposition
from magnetar.admin.metrics.links import LINK
from magnetar.admin.metrics.measurements import AuthenticationTotals
from magnetar.admin.metrics.metadata_sync import metadata_sync_metrics
from magnetar.admin.metrics.subscriptions import PROGRESS, SUBSCRIPTION
from magnetar.admin.metrics.tls import TlsState, tls_metrics
from magnetar.admin.metrics.topics import ENTRY_SIZE, TOPIC, WRITE_LATENCY
from magnetar.admin.models.metadata_sync import MetadataSyncStatus
from reference.broker import administration
from reference.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client.core import Metric as Family

    from magnetar.admin.metrics.table import Metric

_TOPIC = "`cluster`, `namespace`, `topic`"

_OF_TOPICS: Sequence[tuple[str, str, Sequence[Metric[Any]]]] = (
    ("Topics", _TOPIC, TOPIC),
    ("Entries that topics wrote in the last 10 seconds", _TOPIC, (*WRITE_LATENCY, *ENTRY_SIZE)),
    ("Subscriptions", f"{_TOPIC}, `subscription`", SUBSCRIPTION),
    ("Links: topics and remote clusters", f"{_TOPIC}, `remote_cluster`", LINK),
    ("Replicated subscriptions and remote clusters", f"{_TOPIC}, `subscription`, `remote_cluster`", PROGRESS),
    ("Consumers", f"{_TOPIC}, `subscription`, `consumer_name`, `consumer_id`", CONSUMER),
    ("Producers", f"{_TOPIC}, `producer_name`, `producer_id`", PRODUCER),
)

_ABOUT = """\
`GET /metrics` on the web service port returns Prometheus text. Unknown values have no sample. Metrics whose names start
with `pulsar_` are those of Apache Pulsar, with its labels and units. As there, metrics of topics are gauges, including
those that only grow. Rates are those of the last 10 seconds.

Each loaded topic has samples. With `exposeTopicLevelMetricsInPrometheus=false`, the topics of a namespace are combined:
the samples have no labels `topic` and `subscription`, and metrics for which this has no meaning are omitted. A
replication backlog or progress that is unknown for one topic is unknown for the namespace. The counters of a namespace
include topics that are not loaded any more, and end with the namespace.

Metrics of consumers and producers are exposed with `exposeConsumerLevelMetricsInPrometheus` and
`exposeProducerLevelMetricsInPrometheus`. `splitTopicAndPartitionLabelInPrometheus` adds the label `partition`.
"""


def page() -> str:
    """Return a table of the broker's metrics, and one for each kind of object with metrics of its own."""
    own = {metric.name for _, _, metrics in _OF_TOPICS for metric in metrics}
    sections = [f"## Broker\n\n{_table(each for each in _families() if each[0] not in own)}"]
    sections.append(f"## Metadata synchronizer\n\nThey are exposed while it is on.\n\n{_table(_of_synchronizer())}")
    totals = AuthenticationTotals({}, {})
    rows = _table(_row(family) for family in authentication_metrics("", totals))
    sections.append(f"## Authentication\n\nThey are exposed while it is on.\n\n{rows}")
    sections.append(f"## TLS\n\nThey are exposed while a port has TLS.\n\n{_table(_of_tls())}")
    for title, labels, metrics in _OF_TOPICS:
        rows = _table((each.name, each.kind, each.documentation) for each in metrics)
        sections.append(f"## {title}\n\nLabels: {labels}.\n\n{rows}")
    return "\n".join([_ABOUT, *sections])


def _families() -> list[tuple[str, str, str]]:
    """Return the metrics of a broker without topics: name, kind, and text with the labels."""
    service, _ = administration()
    text = b"".join(asyncio.run(exposition(service))).decode()
    return [_row(family) for family in text_string_to_metric_families(text)]


def _of_synchronizer() -> list[tuple[str, str, str]]:
    status = MetadataSyncStatus(
        event_topic="",
        connected=True,
        failure=None,
        unpublished_events=0,
        applied_events=0,
        local_values=0,
        refused_events=0,
        conflicts=0,
        stranded_topics=0,
        stranded_namespaces=[],
        newest_event_age_seconds={},
    )
    return [_row(family) for family in metadata_sync_metrics("", status)]


def _of_tls() -> list[tuple[str, str, str]]:
    return [_row(family) for family in tls_metrics("", TlsState(0, False, 0, 0, 0))]  # noqa: FBT003 - the values do not matter


def _row(family: Family) -> tuple[str, str, str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return name, family.type, family.documentation


def _table(metrics: Iterable[tuple[str, str, str]]) -> str:
    return table(("metric", "kind", "meaning"), [(code(name), kind, text) for name, kind, text in metrics])
