from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.pipeline.connections.reports import (
    Ready,
    Receipts,
    Refused,
    Report,
    ReportDecoder,
    TargetDown,
    TargetLost,
    TargetUp,
    encode_report,
)
from magnetar.wire.links import CUSTODY_IN_RUNS, CUSTODY_ONE_BY_ONE, LinkEnd

ids = st.integers(-1, 2**63 - 1)
positions = st.builds(Position, ids, ids)
numbers = st.integers(0, 2**32 - 1)
states = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
reports = st.one_of(
    st.just(Ready()),
    st.builds(TargetUp, states, st.sampled_from(["", CUSTODY_ONE_BY_ONE, CUSTODY_IN_RUNS])),
    st.builds(TargetLost, states, st.lists(states).map(tuple)),
    st.builds(TargetDown, st.text()),
    st.builds(Receipts, st.lists(st.tuples(numbers, positions)).map(tuple)),
    st.builds(Refused, numbers, st.text(), st.none() | st.builds(LinkEnd, states, positions)),
)


@given(st.lists(reports), st.integers(1, 50))
def test_reports_come_back_however_the_stream_is_cut(sent: list[Report], piece: int) -> None:
    stream = b"".join(map(encode_report, sent))
    decoder = ReportDecoder()
    received = [
        report for start in range(0, len(stream), piece) for report in decoder.feed(stream[start : start + piece])
    ]
    assert received == sent


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="99"):
        ReportDecoder().feed(b"\0\0\0\1\x63")
