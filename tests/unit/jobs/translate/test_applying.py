"""When a state may be set in the target, and with which messages."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import Position
from magnetar.jobs.survey import Subscribed
from magnetar.jobs.translate.applying import _ids, refusal
from magnetar.jobs.translate.exports import chosen
from magnetar.jobs.translate.outcome import Partial, Translation
from magnetar.wire.message_id import position_of
from tests.unit.jobs.translate.entries import TOPIC

PLAIN = Subscribed(False, frozenset())


def wanted(**fields: object) -> Translation:
    return Translation(topic=TOPIC, subscription="s", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "subscriptions", [{}, {"s": {"consumers": []}}, {"other": {"consumers": [{"consumerName": "c"}]}}]
)
def test_a_state_is_set_if_nobody_consumes(subscriptions: dict[str, object]) -> None:
    assert refusal(wanted(), {"subscriptions": subscriptions}) == ""


def test_a_state_is_not_set_below_consumers_or_behind_the_target() -> None:
    stats = {"subscriptions": {"s": {"consumers": [{"consumerName": "c"}]}}}
    assert refusal(wanted(), stats) == "the subscription has 1 consumers in the target"
    assert refusal(wanted(), None) == "the topic does not exist in the target"
    ahead = wanted(ahead=3, first_ahead=Position(7, 1))
    assert refusal(ahead, {"subscriptions": {"s": {}}}).endswith(
        "are not acknowledged in the source, the first one at 7:1"
    )


def test_each_message_after_the_mark_delete_position_is_acknowledged() -> None:
    found = list(_ids(wanted(ranges=[(7, 1, 2), (8, 0, 0)], batches={Position(8, 4): Partial(1 << 64 | 2, 70)})))
    assert [position_of(each) for each in found] == [Position(7, 1), Position(7, 2), Position(8, 0), Position(8, 4)]
    assert [(each.batch_size, list(each.ack_set)) for each in found] == [(0, [])] * 3 + [(70, [2, 1])]


def test_durable_subscriptions_are_chosen_by_name() -> None:
    listed = {
        TOPIC: {"s": PLAIN, "t": PLAIN, "__compaction": PLAIN, "magnetar.repl.ewr": PLAIN},
        "empty": {},
        "gone": None,
    }
    assert chosen(listed, ()) == {TOPIC: ["s", "t"]}
    assert chosen(listed, ["t"]) == {TOPIC: ["t"]}
    with pytest.raises(ConfigurationError, match="no topic has a durable subscription x, y"):
        chosen(listed, ["y", "s", "x"])
