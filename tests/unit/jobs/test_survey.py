"""The answers of the admin API, as a job reads them."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.survey import Skipped, Subscribed, Survey, _bounds, _delivered, _skipped, _subscribed
from magnetar.pipeline.options import ClusterAddress

TOPIC = TopicName.parse("persistent://public/default/orders")


class Api:
    """The admin API of one cluster."""

    def __init__(self, stats: dict[str, Any], *, is_magnetar: bool = True) -> None:
        self._stats = stats
        self._is_magnetar = is_magnetar

    @property
    def topics(self) -> Api:
        return self

    brokers = topics

    def internal_stats(self, topic: TopicName) -> dict[str, Any]:
        assert topic == TOPIC
        return self._stats

    def is_magnetar(self) -> bool:
        return self._is_magnetar


def stats(last: str, *ledgers: tuple[int, int], **more: object) -> dict[str, Any]:
    listed = [{"ledgerId": ledger_id, "entries": entries, "size": 10 * entries} for ledger_id, entries in ledgers]
    return {"lastConfirmedEntry": last, "ledgers": listed, "currentLedgerSize": 7, **more}


def test_the_bounds_of_a_log() -> None:
    found = _bounds(Api(stats("8:3", (5, 10), (8, 0), trimmedOrigins={"ewr": "3:9"})), TOPIC)  # type: ignore[arg-type]
    assert (found.head, found.end, found.trimmed) == (Position(5, 0), Position(8, 3), {"ewr": Position(3, 9)})


def test_an_empty_log_ends_at_its_newest_trimmed_entry() -> None:
    found = _bounds(Api(stats("5:9", (8, 0))), TOPIC)  # type: ignore[arg-type]
    assert (found.head, found.end, found.trimmed) == (Position(6, 0), Position(5, 9), {})
    found = _bounds(Api(stats("8:-1", (8, 0))), TOPIC)  # type: ignore[arg-type]
    assert found.end == EARLIEST


def test_apache_pulsar_does_not_tell_what_it_trimmed() -> None:
    assert _bounds(Api(stats("5:9", (5, 10)), is_magnetar=False), TOPIC).trimmed is None  # type: ignore[arg-type]


def test_an_entry_is_delivered_when_the_target_has_confirmed_it() -> None:
    cursors = {
        "pulsar.repl.jfk": {"properties": {"magnetar.target.ledger": 5, "magnetar.target.entry": 7}},
        "pulsar.repl.lga": {"properties": {}, "markDeletePosition": "5:9"},
        "magnetar.repl.pulsar": {"properties": {}},
        "shop": {"properties": {}},
    }
    assert _delivered({"cursors": cursors}) == {"jfk": Position(5, 7), "lga": EARLIEST, "pulsar": EARLIEST}


def test_durable_subscriptions_are_listed() -> None:
    subscriptions = {
        "shop": {
            "isReplicated": True,
            "isDurable": True,
            "progressUnavailable": {"pulsar": "it has no exact progress"},
        },
        "log": {"isDurable": True},
        "reader": {"isDurable": False},
    }
    found = _subscribed({"subscriptions": subscriptions})
    assert found == {"shop": Subscribed(True, frozenset({"pulsar"})), "log": Subscribed(False, frozenset())}


@pytest.mark.parametrize("names", [["ewr"], ["ewr", "ewr"]])
def test_a_job_needs_two_clusters(names: list[str]) -> None:
    clusters = [ClusterAddress(name, "pulsar://127.0.0.1:1", "http://127.0.0.1:1") for name in names]
    with pytest.raises(ConfigurationError, match="at least two clusters with different names"):
        Survey(clusters)


def test_skipped_ranges_include_both_ends() -> None:
    found = _skipped({"replication": {"jfk": {"skippedRanges": ["5:7..5:9"]}, "lga": {}}})
    assert found == {"jfk": [Skipped(Position(5, 7), Position(5, 9))]}
