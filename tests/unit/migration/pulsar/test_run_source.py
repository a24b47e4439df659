"""The steps before the switch, and the clean-up, from a fake Apache Pulsar."""

from __future__ import annotations

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName
from magnetar.base.position import EARLIEST
from magnetar.migration.pulsar.requests import topic_stats
from magnetar.migration.pulsar.run_source import PulsarRunSource
from magnetar.migration.running.links import LinkState
from magnetar.migration.running.pair import Pair
from magnetar.migration.scope import Scope
from magnetar.migration.sides import source_of, target_of
from tests.unit.admin.fake_clusters import MagnetarTransport
from tests.unit.admin.fake_service import FakeSubscription, new_service
from tests.unit.migration.pulsar.fake_pulsar import CLIENT, EU, Carrier, Pulsar
from tests.unit.migration.still_clock import NOW, StillClock

ORDERS = NamespaceName("shop", "orders")


class Move:
    """A source, and what it is connected with."""

    def __init__(self) -> None:
        self.service = new_service()
        self.pulsar, self.carrier = Pulsar(), Carrier()
        here = AdminClient("http://legacy:8080", transport=self.pulsar)
        self.there = AdminClient("http://ewr:8080", transport=MagnetarTransport(self.service))
        self.there.clusters.create("legacy", {"serviceUrl": "http://legacy:8080"})
        self.there.tenants.create("shop", ["A", "legacy"])
        self.there.namespaces.create(ORDERS, ["A"])
        self.there.topics.create(EU)
        self.pair = Pair(Scope("shop"), source_of(here), target_of(self.there), "legacy", "A", from_pulsar=True)
        self.source = PulsarRunSource(self.pair, self.carrier, StillClock())

    def left_behind(self) -> str:
        stats = topic_stats(self.pair.source, str(EU))
        assert stats is not None
        return self.source.left_behind(str(EU), stats)


@pytest.fixture
def move() -> Move:
    return Move()


def test_links_need_policies_of_the_target_only(move: Move) -> None:
    move.source.link(str(ORDERS), ["legacy"])
    assert sorted(move.there.namespaces.clusters(ORDERS)) == ["A", "legacy"]
    move.source.unlink(str(ORDERS), ["legacy"])
    assert move.there.namespaces.clusters(ORDERS) == ["A"]


def test_the_age_of_a_backlog(move: Move) -> None:
    assert move.source.link_state(str(EU)) == LinkState(0, 0.0, "")
    move.pulsar.backlog = 7
    assert move.source.link_state(str(EU)) == LinkState(7, None, "")
    move.pulsar.published_ms = int(1000 * (NOW - 5))
    assert move.source.link_state(str(EU)) == LinkState(7, 5.0, "")


def test_progress_needs_the_subscription_in_the_target(move: Move) -> None:
    assert move.source.settings_of(str(EU)) == {"billing": True}
    assert move.source.missing_progress(str(EU), ["billing"]) == ("billing: the target does not have it yet", None)
    move.service.topics.held[EU].subscriptions["billing"] = FakeSubscription(EARLIEST)
    assert move.source.missing_progress(str(EU), ["billing"]) == ("", 0)
    assert [state.name for state in move.carrier.sent] == ["billing", "billing"]
    move.carrier.refusal = "no"
    assert move.source.missing_progress(str(EU), ["billing"]) == ("no", None)


def test_the_clean_up_waits_for_what_clients_have_published_last(move: Move) -> None:
    move.pulsar.consumers = [CLIENT]
    assert move.left_behind() == "a client at 10.0.0.9:4242 is connected to the source"
    move.pulsar.consumers, move.pulsar.end, move.pulsar.carried = [], "6:3", "6:2"
    assert move.left_behind() == "A does not have all entries of the source"
    move.pulsar.end, move.pulsar.carried = "6:9", "6:3"
    assert move.left_behind() == "", "later entries come from the target"
    move.pulsar.consumers = [CLIENT]
    assert move.left_behind()
    move.pulsar.consumers = []
    assert move.left_behind() == "A does not have all entries of the source", "the client may have published again"
