"""The page of a broker's metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from magnetar.admin.metrics import exposition
from magnetar.admin.topic_metrics import PROGRESS, REPLICATION, SUBSCRIPTION, TOPIC
from reference.broker import administration
from reference.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from magnetar.admin.topic_metrics import Metric

_TOPIC = "`cluster`, `namespace`, `topic`"

_OF_TOPICS: Sequence[tuple[str, str, Sequence[Metric[Any]]]] = (
    ("Topics", _TOPIC, TOPIC),
    ("Subscriptions", f"{_TOPIC}, `subscription`", SUBSCRIPTION),
    ("Links: topics and remote clusters", f"{_TOPIC}, `remote_cluster`", REPLICATION),
    ("Replicated subscriptions and remote clusters", f"{_TOPIC}, `subscription`, `remote_cluster`", PROGRESS),
)

_ABOUT = """\
`GET /metrics` on the web service port returns Prometheus text. Unknown values have no sample. Metrics whose names start
with `pulsar_` are those of Apache Pulsar, with its labels.
"""

_PULSARS = "as in Apache Pulsar"


def page() -> str:
    """Return a table of the broker's metrics, and one for each kind of object with metrics of its own."""
    own = {metric.name for _, _, metrics in _OF_TOPICS for metric in metrics}
    sections = [f"## Broker\n\n{_table(each for each in _families() if each[0] not in own)}"]
    for title, labels, metrics in _OF_TOPICS:
        rows = _table((each.name, each.kind, each.documentation) for each in metrics)
        sections.append(f"## {title}\n\nLabels: {labels}.\n\n{rows}")
    return "\n".join([_ABOUT, *sections])


def _families() -> list[tuple[str, str, str]]:
    """Return the metrics of a broker without topics: name, kind, and text with the labels."""
    service, _ = administration()
    text = b"".join(asyncio.run(exposition(service))).decode()
    return [
        (f"{family.name}_total" if family.type == "counter" else family.name, family.type, family.documentation)
        for family in text_string_to_metric_families(text)
    ]


def _table(metrics: Iterable[tuple[str, str, str]]) -> str:
    return table(("metric", "kind", "meaning"), [(code(name), kind, text or _PULSARS) for name, kind, text in metrics])
