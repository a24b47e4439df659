"""A queue of topics by time, compared with a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.names import TopicName
from magnetar.broker.housekeeping.agenda import Agenda

NAMES = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(5)]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "take"]), st.sampled_from(NAMES), st.integers(0, 20)), max_size=100
)


@given(OPERATIONS)
def test_it_gives_what_is_due_earliest_first(operations: list[tuple[str, TopicName, int]]) -> None:
    agenda, twin = Agenda(), {}
    for what, name, time in operations:
        if what == "put":
            agenda.put(name, time)
            twin[name] = time
        else:
            taken = agenda.take_due(time)
            due = {each: at for each, at in twin.items() if at <= time}
            assert (taken is None) == (not due)
            if taken is not None:
                assert twin.pop(taken) == min(due.values())
        assert len(agenda) == len(twin)
        assert {name: agenda.at(name) for name in agenda.names()} == twin


def test_plans_that_are_changed_again_and_again_take_no_memory() -> None:
    agenda = Agenda()
    for time in range(10_000):
        agenda.put(NAMES[0], time)
    assert len(agenda._queue) < 20
    assert agenda.take_due(20_000) == NAMES[0]
    assert agenda.take_due(20_000) is None
