"""Magnetar and Apache Pulsar replicate to each other: one with the pipeline, the other with its own replicator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import REPLICATION_TIMEOUT_S, log_of
from tests.interop.conftest import has_messages, replicated_topic
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import numbered, publish
from tests.kit.pulsar import MixedClusters
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

MESSAGES = 200
QUIET_S = 3.0
"""Time in which a circulating message would arrive."""


@pytest.fixture(scope="module")
def linked(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedClusters]:
    """One Magnetar and one Apache Pulsar with a pipeline."""
    with MixedClusters(tmp_path_factory.mktemp("linked"), magnetar=("ewr",), apache=("apache",)) as running:
        running.start_pipeline()
        yield running


@pytest.mark.timeout(UP_TIMEOUT_S)
def test_messages_go_both_ways_once_and_in_order(linked: MixedClusters) -> None:
    topic = replicated_topic(linked)
    for name in linked.members:
        linked.client(name).subscribe(topic, "keeps the log").close()
    publish(linked.client("ewr"), topic, numbered(MESSAGES))
    publish(linked.client("apache"), topic, numbered(MESSAGES, first=MESSAGES))
    # Messages instead of entries, because the pipeline leaves markers in Apache Pulsar's log.
    for name in linked.members:
        has_all = partial(has_messages, linked, name, topic, 2 * MESSAGES)
        wait_until(has_all, REPLICATION_TIMEOUT_S, what=f"all messages in {name}", interval_s=0.5)
    logs = {name: log_of(linked, name, topic) for name in linked.members}
    for log in logs.values():
        assert [payload for payload in log if int(payload) < MESSAGES] == numbered(MESSAGES)
        assert [payload for payload in log if int(payload) >= MESSAGES] == numbered(MESSAGES, first=MESSAGES)
    assert holds_for(
        lambda: all(len(log_of(linked, name, topic)) == 2 * MESSAGES for name in linked.members),
        QUIET_S,
        interval_s=0.5,
    )
