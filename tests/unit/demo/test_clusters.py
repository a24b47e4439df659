from __future__ import annotations

from dataclasses import replace

from magnetar.demo.clusters import TopicStatus, Watch
from magnetar.demo.samples import Percentiles

STATS = {
    "subscriptions": {
        "boarding": {
            "consumers": [{}, {}],
            "msgBacklog": 12,
            "progressAgeSeconds": {"jfk": 0.04, "lga": 0.0},
            "progressApplied": {"lga": {"count": 1, "p50": 3.0, "p99": 3.0, "max": 3.0}},
        }
    },
    "replication": {
        "jfk": {"replicationBacklog": 5, "handovers": 2},
        "lga": {"replicationBacklog": 7, "handovers": 3},
    },
}
QUIET = TopicStatus.of({"subscriptions": {}, "replication": {}}, 0.0)


def test_reads_a_topics_stats() -> None:
    assert TopicStatus.of(STATS, 99.0) == TopicStatus(
        at_ms=99.0,
        consumers=2,
        backlog=12,
        progress_age_seconds={"jfk": 0.04, "lga": 0.0},
        progress_applied={"lga": Percentiles(3.0, 3.0, 1)},
        replication_backlog=12,
        handovers={"jfk": 2, "lga": 3},
    )


def test_a_topic_without_the_subscription_has_no_progress() -> None:
    assert (QUIET.consumers, QUIET.backlog, QUIET.progress_age_seconds) == (0, 0, {})


def test_samples_the_oldest_of_the_unconfirmed() -> None:
    statuses = [TopicStatus.of(STATS, 0.0), QUIET, None]
    watch = Watch(lambda _cluster: statuses.pop(0))
    for _ in range(3):
        watch.sample_age("ewr", down=None)
    assert watch.ages_ms == [40.0]


def test_a_cluster_that_is_down_says_nothing_of_the_links_between_the_others() -> None:
    watch = Watch(lambda _cluster: TopicStatus.of(STATS, 0.0))
    watch.sample_age("ewr", down="jfk")
    assert watch.ages_ms == [0.0]


def test_hand_overs_go_on_counting_when_a_broker_starts_again() -> None:
    counts = [1, 4, 0, 2]
    watch = Watch(lambda _cluster: replace(QUIET, handovers={"lga": counts.pop(0)}))
    for _ in range(4):
        watch.look("jfk")
    assert watch.handovers == 6


def test_a_cluster_without_response_changes_nothing() -> None:
    answers = [replace(QUIET, backlog=3), None]
    watch = Watch(lambda _cluster: answers.pop(0))
    watch.look("jfk")
    assert watch.look("jfk") is None
    assert watch.latest["jfk"].backlog == 3
