"""The topics of a source whose broker reports what it replicates."""

from __future__ import annotations

from magnetar.base.errors import ServerError
from magnetar.pipeline import limits
from magnetar.wire import commands
from tests.unit.pipeline.hand_broker import HandBroker
from tests.unit.pipeline.test_source_cluster import NAMESPACE, ORDERS, Reader

FLIGHTS = f"persistent://{NAMESPACE}/flights"
LATER = "public/later"
SOON_S = 0.001


class Reports:
    """A task whose source reports."""

    def __init__(self) -> None:
        broker = HandBroker("pulsar://ewr:6650", reports_links=True)
        broker.namespaces[NAMESPACE] = [ORDERS]
        self.reader = Reader(broker)
        self.broker = broker

    def report(self, added: str = "", removed: str = "", topics_changed: str = "", *, has_more: bool = False) -> None:
        lists = [[text] if text else [] for text in (added, removed, topics_changed)]
        report = commands.links_changed(added=lists[0], removed=lists[1], topics_changed=lists[2], has_more=has_more)
        self.broker.say(report)
        self.reader.hand.run()

    def pass_time(self, seconds: float) -> None:
        self.reader.hand.pass_time(seconds)

    @property
    def links(self) -> list[str]:
        """The topics with a link, in the order of their first attachment."""
        return list(dict.fromkeys(each.topic for each in self.broker.subscribed))


def test_a_connection_that_is_lost_as_soon_as_it_is_open_is_opened_again() -> None:
    source = Reports()
    source.broker.hangs_up = True
    source.broker.drop()
    for _ in range(3):
        source.reader.hand.run()
        source.pass_time(limits.RECONNECT_MAX_SECONDS)
    assert source.broker.connections == 3
    assert source.broker.watched == ["jfk", "jfk"]


def test_reported_namespaces_get_their_links_at_once_and_are_not_polled() -> None:
    source = Reports()
    assert source.broker.watched == ["jfk"]
    assert source.reader.polled == []
    assert source.links == [ORDERS]
    source.pass_time(60)
    assert source.broker.asked_for == [NAMESPACE]


def test_a_reported_topic_gets_its_link_at_once() -> None:
    source = Reports()
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    source.broker.namespaces[NAMESPACE] = [ORDERS, FLIGHTS]
    source.report(topics_changed=NAMESPACE)
    source.pass_time(SOON_S)
    assert source.links == [ORDERS, FLIGHTS]


def test_the_topics_of_a_namespace_are_requested_once_in_an_interval() -> None:
    source = Reports()
    source.pass_time(1)
    for _ in range(5):
        source.report(topics_changed=NAMESPACE)
        source.pass_time(SOON_S)
    assert source.broker.asked_for == [NAMESPACE] * 2
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    assert source.broker.asked_for == [NAMESPACE] * 3
    source.pass_time(60)
    assert source.broker.asked_for == [NAMESPACE] * 3


def test_the_interval_is_longer_for_a_namespace_with_many_topics() -> None:
    source = Reports()
    source.pass_time(1)
    many = int(1 / limits.TOPICS_INTERVAL_PER_TOPIC_SECONDS)
    source.broker.namespaces[NAMESPACE] = [ORDERS, *(f"{FLIGHTS}{number}" for number in range(many))]
    source.report(topics_changed=NAMESPACE)
    source.pass_time(SOON_S)
    source.broker.namespaces[NAMESPACE] = [ORDERS]
    source.report(topics_changed=NAMESPACE)
    source.pass_time(0.9)
    assert len(source.broker.asked_for) == 2
    source.pass_time(0.2)
    assert len(source.broker.asked_for) == 3


def test_a_change_while_the_topics_are_requested_is_followed_by_another_request() -> None:
    source = Reports()
    source.pass_time(1)
    source.broker.holds_lists = True
    for _ in range(3):
        source.report(topics_changed=NAMESPACE)
        source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    assert len(source.broker.asked_for) == 2
    source.broker.holds_lists = False
    source.broker.release()
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    source.pass_time(60)
    assert len(source.broker.asked_for) == 3


def test_a_namespace_that_is_not_replicated_any_more_loses_its_links() -> None:
    source = Reports()
    source.report(removed=NAMESPACE)
    assert source.reader.tail.live_links == 0
    source.report(added=NAMESPACE)
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    assert source.reader.tail.live_links == 1


def test_after_a_reconnection_the_namespaces_of_the_new_reports_count() -> None:
    source = Reports()
    source.broker.namespaces = {LATER: [f"persistent://{LATER}/t"]}
    source.broker.drop()
    source.reader.hand.run()
    source.pass_time(limits.RECONNECT_INITIAL_SECONDS)
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    assert source.broker.watched == ["jfk", "jfk"]
    assert source.links == [ORDERS, f"persistent://{LATER}/t"]
    assert source.reader.tail.live_links == 1


def test_namespaces_of_the_connection_before_remain_until_all_are_reported() -> None:
    source = Reports()
    source.broker.namespaces = {}
    source.broker.first_has_more = True
    source.broker.drop()
    source.reader.hand.run()
    source.pass_time(limits.RECONNECT_INITIAL_SECONDS)
    assert source.reader.tail.live_links == 1
    source.report(added=LATER)
    assert source.reader.tail.live_links == 0


def test_a_refused_request_for_topics_is_repeated() -> None:
    source = Reports()
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    source.broker.namespaces[NAMESPACE] = [ORDERS, FLIGHTS]
    source.broker.list_error = ServerError.ServiceNotReady
    source.report(topics_changed=NAMESPACE)
    source.pass_time(SOON_S)
    source.broker.list_error = None
    source.pass_time(limits.TOPICS_POLL_SECONDS)
    assert source.links == [ORDERS, FLIGHTS]


def test_a_refused_watch_begins_again_with_the_next_connection() -> None:
    source = Reports()
    source.broker.watch_error = ServerError.NotAllowedError
    source.broker.drop()
    source.reader.hand.run()
    source.pass_time(limits.RECONNECT_INITIAL_SECONDS)
    source.broker.watch_error = None
    source.pass_time(limits.RECONNECT_MAX_SECONDS)
    source.pass_time(limits.TOPICS_INTERVAL_SECONDS)
    assert source.broker.watched == ["jfk", "jfk"]
    assert source.reader.tail.live_links == 1


def test_a_broker_that_does_not_report_is_polled() -> None:
    reader = Reader()
    assert reader.polled == ["ewr"]
    reader.broker.namespaces[NAMESPACE] = [ORDERS, FLIGHTS]
    reader.hand.pass_time(limits.TOPICS_POLL_SECONDS)
    assert reader.tail.live_links == 2


def test_answers_of_admin_ports_do_not_count_beside_reports() -> None:
    source = Reports()
    source.reader.tail.serve([LATER])
    assert source.reader.tail.live_links == 1
