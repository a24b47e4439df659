"""The acknowledgement state of Apache Pulsar as progress."""

from __future__ import annotations

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.epochs import Epoch
from magnetar.migration.pulsar.acknowledgements import progress_in

STATS = {
    "cursors": {
        "billing%2Feu": {
            "markDeletePosition": "5:250",
            "individuallyDeletedMessages": "[(5:251..5:259],(5:260..7:1]]",
        },
        "fresh": {"markDeletePosition": "5:-1", "individuallyDeletedMessages": "[]"},
        "magnetar.repl.ewr": {"markDeletePosition": "7:9", "individuallyDeletedMessages": "[]"},
    }
}


def test_ranges_exclude_their_lower_end_and_reach_over_ledgers() -> None:
    (state,) = progress_in(STATS, {"billing/eu"}, "legacy", 9.5)
    assert (state.name, state.epoch) == ("billing/eu", Epoch(9_500, "legacy"))
    assert state.starts() == {}
    assert list(state.origin("legacy").acknowledged) == [
        (EARLIEST, Position(5, 250)),
        (Position(5, 251), Position(5, 259)),
        (Position(5, 260), Position(7, 1)),
    ]


def test_a_subscription_without_acknowledgements_has_none_of_its_ledger() -> None:
    (state,) = progress_in(STATS, {"fresh", "deleted meanwhile"}, "legacy", 9.5)
    acknowledged = state.origin("legacy").acknowledged
    assert (Position(5, 0) in acknowledged, Position(4, 9) in acknowledged) == (False, True)
