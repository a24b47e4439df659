from __future__ import annotations

import pytest

from magnetar.migration.running.agreement import has_agreed, is_carried


@pytest.mark.parametrize(
    ("backlog", "delay_s", "watched_s", "expected"),
    [
        (0, 0, 0.0, True),
        (None, None, 60.0, False),
        (0, None, 60.0, False),
        (5, 1, 0.0, False),  # entries from before the topic was loaded seem young
        (5, 1, 3.0, True),
        (5, 2, 60.0, False),
    ],
)
def test_a_link_has_carried_what_was_stored_before(
    backlog: int | None, delay_s: int | None, watched_s: float, expected: bool
) -> None:
    assert is_carried(backlog, delay_s, watched_s) is expected


@pytest.mark.parametrize(
    ("unconfirmed", "age_s", "first", "expected"),
    [
        (0, 0.0, 0, True),
        (0, 0.0, 600, True),
        (None, None, 0, False),
        (600, 0.0, 600, False),  # acknowledged before the subscription was replicated
        (605, 0.5, 600, False),  # some more since
        (3, 0.5, 600, True),  # the target has the 600, and lacks three that were just made
        (3, 2.0, 600, False),
        (0, 5.0, 0, False),  # a seek, or a part of a batch
    ],
)
def test_progress_has_agreed_when_the_target_has_what_was_acknowledged_before(
    unconfirmed: int | None, age_s: float | None, first: int, expected: bool
) -> None:
    assert has_agreed(unconfirmed, age_s, first) is expected
