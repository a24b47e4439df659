from __future__ import annotations

import pytest

from magnetar.demo.account import Account, DemoError, Outage
from magnetar.demo.processes.workers import Arrival, Arrived, Consumed, Failed, Holding, Published


def test_adds_up_what_is_published_and_consumed() -> None:
    account = Account()
    account.take(Published("ewr", 3))
    account.take(Published("ewr", 2))
    account.take(Published("jfk", 1))
    account.take(Consumed(0, [(1, "1:0"), (2, "1:1")], [((1, "1:0"), 5.0)]))
    assert account.published == {"ewr": 5, "jfk": 1}
    assert (account.tally.delivered, account.tally.outstanding) == (2, 1)


def test_latency_leaves_out_what_the_outage_held_up() -> None:
    account = Account()
    account.take(Arrived([Arrival("ewr", 100.0, 110.0)]))
    account.outage = Outage("jfk", began_ms=1_000.0)
    account.take(Arrived([Arrival("jfk", 990.0, 1_200.0), Arrival("ewr", 1_190.0, 1_200.0)]))
    account.outage.ended_ms = 5_000.0
    account.take(Arrived([Arrival("jfk", 900.0, 5_100.0), Arrival("jfk", 4_000.0, 5_100.0)]))
    account.take(Arrived([Arrival("jfk", 6_000.0, 6_010.0)]))
    assert account.latency().count == 3
    assert account.latency().p99 == 10.0


def test_late_is_what_was_published_before_the_outage_and_came_after_it() -> None:
    account = Account()
    account.outage = Outage("jfk", began_ms=1_000.0)
    account.take(Arrived([Arrival("jfk", 990.0, 1_002.0)]))  # was in flight
    assert account.late == 0
    account.outage.ended_ms = 5_000.0
    account.take(Arrived([Arrival("jfk", 999.0, 5_050.0), Arrival("jfk", 2_000.0, 5_060.0)]))
    assert account.late == 1


def test_keeps_what_each_cluster_holds() -> None:
    account = Account()
    holding = Holding("ewr", messages=5, flights=4, resent=1, repeated=0)
    account.take(holding)
    assert account.holdings == {"ewr": holding}


def test_a_failed_process_ends_the_story() -> None:
    with pytest.raises(DemoError, match=r"probe in lga failed: .*no broker"):
        Account().take(Failed("probe in lga", "ConnectError: no broker"))
