from __future__ import annotations

from magnetar.sim.coverage import Coverage


def test_names_that_never_occurred_come_first() -> None:
    coverage = Coverage()
    coverage.add({"crash": 2, "seek": 0, "ack": 1})
    coverage.add({"crash": 1, "seek": 0, "ack": 0})
    assert coverage.worlds == 2
    assert list(coverage.rows()) == [("seek", 0, 0), ("ack", 1, 1), ("crash", 2, 3)]
