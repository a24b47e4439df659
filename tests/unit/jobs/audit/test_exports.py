"""The subscriptions that are compared, and their exported states."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.acknowledgements import STATES, states_in
from magnetar.jobs.audit.exports import Comparable, comparable, export, missing_rows
from magnetar.jobs.audit.tables import Kind
from magnetar.jobs.survey import Subscribed

YES, NO = Subscribed(True, frozenset()), Subscribed(False, frozenset())
TOPIC = "persistent://public/default/orders"


def test_a_replicated_subscription_is_compared_where_it_is_replicated() -> None:
    found = comparable({"ewr": {"s": YES}, "jfk": {"s": YES}, "lga": {"s": NO}})
    assert found == Comparable({"s": frozenset({"ewr", "jfk"})}, {}, {})


def test_a_replicated_subscription_is_missing_where_it_does_not_exist() -> None:
    found = comparable({"ewr": {"s": YES}, "jfk": {}})
    assert found == Comparable({}, {"s": frozenset({"jfk"})}, {})
    (row,) = missing_rows(TOPIC, found, ["ewr", "jfk"])
    assert (row["kind"], row["subscription"], row["cluster"], row["other"]) == (Kind.NO_SUBSCRIPTION, "s", "jfk", "ewr")


@pytest.mark.parametrize(
    ("by_cluster", "reason"),
    [
        ({"ewr": {"s": NO}, "jfk": {"s": NO}}, "it is not replicated"),
        ({"ewr": {"s": NO}, "jfk": {}}, "it is not replicated"),
        ({"ewr": {"s": YES}, "jfk": {"s": NO}}, "it is replicated in one cluster only"),
        (
            {"ewr": {"s": Subscribed(True, frozenset({"pulsar"}))}, "pulsar": {"s": YES}},
            "it is replicated with snapshots",
        ),
        ({"ewr": {"s": Subscribed(True, frozenset({"pulsar"}))}, "pulsar": {}}, "it is replicated with snapshots"),
    ],
)
def test_other_subscriptions_are_not_compared(by_cluster: dict[str, dict[str, Subscribed]], reason: str) -> None:
    assert comparable(by_cluster) == Comparable({}, {}, {"s": reason})


class Pages:
    """The admin API of a cluster whose state has two pages."""

    @property
    def subscriptions(self) -> Pages:
        return self

    def acknowledgements(self, topic: object, subscription: str, after: Position) -> dict[str, Any]:
        if after == EARLIEST:
            page = {"ranges": [[5, 3, 4]], "batches": {"5:6": [3, 1]}, "next": "5:6"}
        else:
            assert after == Position(5, 6)
            page = {"ranges": [[8, 0, 0]], "batches": {}}
        return {"markDeletePosition": "5:1", **page}


class Survey:
    def client(self, cluster: str) -> Pages:
        return Pages()


def test_a_state_is_exported_with_all_of_its_pages() -> None:
    wanted = Comparable({"s": frozenset({"ewr", "jfk"})}, {}, {})
    table = export(Survey(), TOPIC, wanted)  # type: ignore[arg-type]
    assert table.schema == STATES
    state = states_in(table)["s"]["jfk"]
    assert state.mark_delete == Position(5, 1)
    ranges = zip(state.ledgers.tolist(), state.firsts.tolist(), state.lasts.tolist(), strict=True)
    assert list(ranges) == [(5, 3, 4), (8, 0, 0)]
    assert state.remaining == {Position(5, 6): 1 << 64 | 3}
    assert states_in(pa.table({name: [] for name in STATES.names}, STATES)) == {}
