"""The lag limit in whole brokers: the number of receipted entries at risk is limited, whatever the links do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.publish import lag_limit
from magnetar.broker.publish.lag_limit import CALM_S
from magnetar.broker.publish.receipt_gate import NO_BOUND
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, Cluster, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.admin.models.topics import TopicStats


class LagScenario:
    """A source with its targets, and a producer of numbers."""

    def __init__(self, *targets: str, settings: dict[str, Any] | None = None, **policies: int) -> None:
        loop = HandLoop()
        self.source = Cluster("ewr", targets=targets, loop=loop, settings=settings or {})
        self.policies(**policies)
        self.pipes = {name: Pipe(self.source, Cluster(name, targets=["ewr"], loop=loop)) for name in targets}
        self.publisher = self.producer()
        self.sent = 0
        for pipe in self.pipes.values():
            pipe.attach(permits=1000)

    def producer(self, name: str = "") -> Client:
        client = self.source.client()
        client.produce(name=name)
        client.heard.clear()
        return client

    def policies(self, **policies: int | None) -> None:
        update = self.source.resources.namespaces.update
        self.source.do(lambda: update(NAMESPACE, lambda found: found.model_copy(update=policies)))

    def send(self, count: int) -> None:
        self.publisher.send(*map(str, range(self.sent, self.sent + count)), first=self.sent)
        self.sent += count

    def receipts(self) -> list[int]:
        return [sequence_id for sequence_id, _ in self.publisher.receipts()]

    def carry(self, name: str, count: int = 1000) -> None:
        pipe = self.pipes[name]
        pipe.read()
        pipe.send(count)
        pipe.confirm()

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.source.loop.advance(0.5)
            self.source.settle()

    def stats(self) -> TopicStats:
        return topic_stats(self.source.topic(), StatsOptions())


def test_receipts_wait_until_the_bound_allows_them_and_come_in_order() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=3)
    for _ in range(5):
        scenario.send(1)
    assert scenario.receipts() == [0, 1, 2]
    scenario.carry("jfk", 1)
    assert scenario.receipts() == [3]
    scenario.carry("jfk")
    assert scenario.receipts() == [4]
    assert read_all(scenario.pipes["jfk"].target) == list("01234")


def test_a_run_waits_as_a_whole() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=3)
    scenario.send(5)
    assert scenario.receipts() == []
    scenario.carry("jfk", 2)
    assert scenario.receipts() == [0, 1, 2, 3, 4]


def test_nothing_is_promised_before_it_is_elsewhere_where_the_bound_is_zero() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(1)
    assert scenario.receipts() == []
    scenario.carry("jfk")
    assert scenario.receipts() == [0]


def test_entries_in_too_few_clusters_are_at_risk() -> None:
    scenario = LagScenario("jfk", "lga", max_at_risk_messages=0, at_risk_copies=2)
    scenario.send(1)
    scenario.carry("jfk")
    assert scenario.receipts() == []
    scenario.carry("lga")
    assert scenario.receipts() == [0]
    scenario.policies(max_at_risk_messages=0, at_risk_copies=1)
    scenario.send(1)
    scenario.carry("lga")
    assert scenario.receipts() == [1], "one is enough"


def test_a_policy_that_goes_away_lets_go_of_what_waits() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(2)
    scenario.policies(max_at_risk_messages=None)
    assert scenario.receipts() == [0, 1]
    scenario.policies(max_at_risk_messages=0)
    scenario.send(1)
    assert scenario.receipts() == []
    scenario.source.replicate_to()
    assert scenario.receipts() == [2], "there is no other cluster"


def test_while_one_cluster_is_left_that_has_it_an_absent_one_holds_nothing_up() -> None:
    scenario = LagScenario("jfk", "lga", max_at_risk_messages=1)
    for _ in range(10):
        scenario.send(1)
        scenario.carry("lga")
    assert scenario.receipts() == list(range(10))


def test_an_absent_cluster_is_excluded_after_the_time_that_the_policy_says() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=2, at_risk_absence_seconds=60)
    with capture_logs() as logs:
        for _ in range(4):
            scenario.send(1)
        scenario.pass_time(55)
        assert scenario.receipts() == [0, 1]
        scenario.pass_time(10)
        assert scenario.receipts() == [2, 3]
        scenario.send(1)
        assert scenario.receipts() == [4], "at once"
        assert (scenario.stats().clusters_not_counted, scenario.stats().publishing_throttled) == (["jfk"], None)
        scenario.carry("jfk")
        scenario.pass_time(2)
        for _ in range(4):
            scenario.send(1)
        assert scenario.receipts() == [5, 6], "it counts again"
    events = [log["event"] for log in logs if "cluster" in log]
    assert events == ["absent_cluster_excluded", "absent_cluster_included"]


def test_by_default_publishing_waits_for_ever() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(1)
    scenario.pass_time(3600)
    assert scenario.receipts() == []
    scenario.carry("jfk")
    assert scenario.receipts() == [0]


def test_seconds_bound_what_was_promised_since_the_oldest_that_is_unconfirmed() -> None:
    scenario = LagScenario("jfk", max_at_risk_seconds=5)
    for _ in range(8):
        scenario.send(1)
        scenario.pass_time(1)
    assert scenario.receipts() == [0, 1, 2, 3, 4]
    scenario.carry("jfk")
    assert scenario.receipts() == [5, 6, 7]


def test_it_is_told_and_it_ends() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=1)
    with capture_logs() as logs:
        for _ in range(3):
            scenario.send(1)
        found = scenario.stats()
        assert (found.at_risk_messages, found.withheld_receipts) == (3, 2)
        assert found.publishing_throttled == "at most 1 messages may be in fewer than 1 other clusters, 3 are"
        scenario.carry("jfk")
        scenario.pass_time(CALM_S + 1)
    found = scenario.stats()
    assert (found.at_risk_messages, found.withheld_receipts, found.publishing_throttled) == (0, 0, None)
    assert [log["event"] for log in logs if log["event"].startswith("publishing")] == [
        "publishing_throttled",
        "publishing_not_throttled",
    ]


def test_others_on_the_connection_are_read_on_up_to_a_limit() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0, settings={"maxWithheldReceiptsPerConnection": 4})
    scenario.send(4)
    assert scenario.publisher.reading
    scenario.send(1)
    assert not scenario.publisher.reading
    scenario.carry("jfk", 3)
    scenario.carry("jfk", 2)
    assert scenario.publisher.reading
    assert scenario.receipts() == [0, 1, 2, 3, 4]


def test_entries_of_other_clusters_are_never_held_up() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(1)
    jfk = scenario.pipes["jfk"].target
    back = Pipe(jfk, scenario.source)
    back.attach()
    other = jfk.client()
    other.produce()
    other.send("x")
    back.read()
    back.run()
    assert read_all(scenario.source) == ["0", "x"]


def test_with_deduplication_a_repetition_is_promised_no_sooner_than_what_it_repeats() -> None:
    scenario = LagScenario("jfk", settings={"brokerDeduplicationEnabled": True}, max_at_risk_messages=0)
    scenario.publisher = scenario.producer(name="p")
    scenario.send(1)
    scenario.publisher.leave()
    scenario.publisher = scenario.producer(name="p")
    scenario.sent = 0
    scenario.send(1)
    assert scenario.receipts() == []
    scenario.carry("jfk")
    assert scenario.receipts() == [0]
    assert read_all(scenario.pipes["jfk"].target) == ["0"]


def test_a_producer_that_closes_hears_so_behind_its_receipts_and_an_idle_one_at_once() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    idle = scenario.producer()
    scenario.send(1)
    idle.say(commands.close_producer(producer_id=1, request_id=99))
    assert idle.names() == ["SUCCESS"]
    scenario.publisher.say(commands.close_producer(producer_id=1, request_id=99))
    assert scenario.publisher.names() == []
    scenario.carry("jfk")
    assert scenario.publisher.names() == ["SEND_RECEIPT", "SUCCESS"]


def test_refusals_behind_receipts_count_so_that_a_client_cannot_pile_them_up() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0, settings={"maxWithheldReceiptsPerConnection": 4})
    scenario.send(1)
    for number in range(1, 5):
        assert scenario.publisher.reading
        scenario.publisher.say(commands.send(producer_id=1, sequence_id=number, entry=b"invalid"))
    assert not scenario.publisher.reading
    assert scenario.stats().withheld_receipts == 5
    scenario.carry("jfk")
    assert scenario.publisher.reading
    assert scenario.publisher.names() == ["SEND_RECEIPT", *["SEND_ERROR"] * 4]
    assert scenario.stats().withheld_receipts == 0


@pytest.mark.parametrize("limit_then", [9, NO_BOUND])
def test_many_withheld_receipts_are_written_in_several_turns(monkeypatch: pytest.MonkeyPatch, limit_then: int) -> None:
    monkeypatch.setattr(lag_limit, "WRITTEN_AT_ONCE_MAX", 2)
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    for _ in range(5):
        scenario.send(1)
    topic = scenario.source.topic()
    limit = topic.lag_limit
    assert limit._queue is not None
    (session,) = limit._queue.of_session
    release, written = limit._release, list[int | str]()

    def counting() -> None:
        before = limit.withheld
        release()
        written.append(before - limit.withheld)
        if len(written) == 1:
            limit.after(session, topic.ledger.last_confirmed_entry, 1, lambda: written.append("a later one"))

    monkeypatch.setattr(limit, "_release", counting)
    scenario.policies(max_at_risk_messages=limit_then)
    assert [each for each in written if each] == [2, 2, "a later one", 2]
    assert scenario.receipts() == [0, 1, 2, 3, 4]


def test_receipts_of_a_connection_that_ended_are_forgotten() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    other = scenario.producer()
    scenario.send(2)
    other.send("x")
    other.leave()
    scenario.source.settle()
    assert scenario.stats().withheld_receipts == 2
    scenario.carry("jfk")
    assert scenario.receipts() == [0, 1]
    assert scenario.stats().withheld_receipts == 0


def test_an_unload_lets_go_of_what_waits_because_it_would_be_sent_again() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(2)
    scenario.source.do(lambda: scenario.source.topics.unload(TOPIC))
    assert scenario.publisher.names() == ["SEND_RECEIPT", "SEND_RECEIPT", "CLOSE_PRODUCER"]


def test_after_a_crash_what_is_at_risk_is_known_from_the_log() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=2)
    scenario.send(2)
    assert scenario.receipts() == [0, 1]
    scenario.source.crash()
    scenario.publisher = scenario.producer()
    scenario.send(1)
    assert scenario.receipts() == []
    scenario.pipes["jfk"].attach(permits=100)
    scenario.carry("jfk")
    assert scenario.receipts() == [2]


def test_receipts_of_a_producer_are_not_written_for_its_successor() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(1)
    producer = next(iter(scenario.source.topic().producers.values()))
    scenario.source.do(lambda: producer.session.close_producer(producer))
    scenario.publisher.produce()
    scenario.publisher.heard.clear()
    scenario.carry("jfk")
    assert scenario.receipts() == []


MOVES = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 3)),
    st.tuples(st.just("jfk"), st.integers(1, 3)),
    st.tuples(st.just("lga"), st.integers(1, 3)),
    st.tuples(st.just("attach jfk"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(1, 2), st.lists(MOVES, max_size=25))
def test_the_bound_holds_through_everything(limit: int, copies: int, moves: list[tuple[str, int]]) -> None:
    scenario = LagScenario("jfk", "lga", max_at_risk_messages=limit, at_risk_copies=copies)
    promised: set[str] = set()
    texts: dict[int, str] = {}
    number = 0
    for move, count in moves:
        if move == "send":
            frames = []
            for _ in range(count):
                texts[number] = str(number)
                frames.append(commands.send(producer_id=1, sequence_id=number, entry=entry(str(number))))
                number += 1
            scenario.publisher.say(*frames)
        elif move in scenario.pipes:
            scenario.carry(move, count)
        elif move == "attach jfk":
            scenario.pipes["jfk"].attach(permits=1000)
        else:
            scenario.source.crash()
            scenario.publisher = scenario.producer()
            for pipe in scenario.pipes.values():
                pipe.attach(permits=1000)
        promised |= {texts[sequence_id] for sequence_id in scenario.receipts()}
        copies_of = [set(read_all(pipe.target)) for pipe in scenario.pipes.values()]
        at_risk = [text for text in promised if sum(text in copy for copy in copies_of) < copies]
        assert len(at_risk) <= limit


def test_nothing_is_promised_while_it_is_not_known_what_the_only_copy_holds() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0)
    scenario.send(1)
    scenario.carry("jfk")
    assert scenario.receipts() == [0]
    pipe = scenario.pipes["jfk"]
    pipe.reader.leave()
    scenario.source.settle()
    scenario.send(1)
    stats = scenario.stats()
    assert (scenario.receipts(), stats.at_risk_messages, stats.withheld_receipts) == ([], None, 1)
    assert stats.publishing_throttled == "the content of jfk is not known yet"
    pipe.target = Cluster("jfk", targets=["ewr"], loop=scenario.source.loop)  # its disk was lost
    pipe.attach(seek=False, permits=1000)
    scenario.carry("jfk")
    assert (scenario.receipts(), scenario.stats().at_risk_messages) == ([], 2)
    pipe.run()
    assert (scenario.receipts(), scenario.stats().at_risk_messages) == ([1], 0)
    assert read_all(pipe.target) == ["0", "1"]


def test_a_copy_that_is_not_known_needs_no_waiting_for_where_another_is() -> None:
    scenario = LagScenario("jfk", "lga", max_at_risk_messages=0)
    scenario.send(1)
    scenario.carry("jfk")
    scenario.carry("lga")
    scenario.pipes["lga"].reader.leave()
    scenario.source.settle()
    scenario.send(1)
    assert scenario.receipts() == [0]
    scenario.carry("jfk")
    assert scenario.receipts() == [1]


def test_a_cluster_that_stays_unknown_for_too_long_does_not_count() -> None:
    scenario = LagScenario("jfk", max_at_risk_messages=0, at_risk_absence_seconds=60)
    scenario.send(1)
    scenario.carry("jfk")
    scenario.pipes["jfk"].reader.leave()
    scenario.source.settle()
    scenario.send(1)
    scenario.pass_time(59)
    assert scenario.receipts() == [0]
    scenario.pass_time(3)
    assert (scenario.receipts(), scenario.stats().clusters_not_counted) == ([1], ["jfk"])
