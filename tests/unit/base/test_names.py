"""Names of topics and clusters: partitions and maximum lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX, Limit
from magnetar.base.names import NamespaceName, TopicName, check_cluster_name, check_length

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = "persistent://public/default/orders"


@pytest.mark.parametrize(
    ("suffix", "index"),
    [
        ("0", 0),
        ("7", 7),
        ("4294967295", 4_294_967_295),
        ("00", -1),
        ("07", -1),
        ("٣", -1),
        ("1٣", -1),
        ("9" * 5000, -1),
    ],
)
def test_an_index_is_written_in_one_way(suffix: str, index: int) -> None:
    topic = TopicName.parse(f"{ORDERS}-partition-{suffix}")
    assert topic.partition_index == index
    assert topic.partitioned_topic == (topic if index < 0 else TopicName.parse(ORDERS))
    assert index < 0 or TopicName.parse(ORDERS).partition(index) == topic


@pytest.mark.parametrize("name", ["x" * 20, "ä" * 10])
def test_a_length_counts_bytes(name: str) -> None:
    check_length("subscription", name, 20)
    with pytest.raises(RequestError, match=r"the name of a subscription may have 19 bytes \(maxNameLength\)") as raised:
        check_length("subscription", name, 19)
    assert (raised.value.code, raised.value.limit) == (ServerError.NotAllowedError, Limit.NAME_LENGTH)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "münchen", "٣"])
def test_invalid_cluster_names_are_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is no name of a cluster") as raised:
        check_cluster_name(name)
    assert (raised.value.code, raised.value.limit) == (ServerError.NotAllowedError, None)


def test_the_name_of_a_cluster_has_a_limit_of_its_own() -> None:
    check_cluster_name("x" * CLUSTER_NAME_LENGTH_MAX)
    with pytest.raises(RequestError, match="maxClusterNameLength") as raised:
        check_cluster_name("x" * (CLUSTER_NAME_LENGTH_MAX + 1))
    assert raised.value.limit is Limit.CLUSTER_NAME_LENGTH


@pytest.mark.parametrize("parse", [TopicName.parse, NamespaceName.parse])
def test_an_error_shows_the_beginning_of_a_long_name(parse: Callable[[str], object]) -> None:
    with pytest.raises(InvalidTopicNameError) as raised:
        parse("non-existent://" + "x" * 100_000)
    assert len(str(raised.value)) < 300
