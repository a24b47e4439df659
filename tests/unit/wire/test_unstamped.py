"""An entry without its stamp is what its producer wrote, or the stamp stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import entry
from magnetar.wire.entries.entry import assemble, intact_parts
from magnetar.wire.entries.origin import LINK_PLACE_KEY, SOURCE_POSITION, Origin, place_of, stamp, stamp_again
from magnetar.wire.entries.run_stamps import stamp_plain
from magnetar.wire.entries.unstamped import unstamp

AT = Position(3, 7)
EWR = Origin("ewr", AT, Position(3, 6), Position(3, 6))

origins = st.builds(
    Origin,
    st.just("ewr"),
    st.just(AT),
    st.sampled_from([EARLIEST, Position(3, 6), Position(2, 10**12)]),
    st.sampled_from([EARLIEST, Position(3, 6), Position(2, 9)]),
    st.booleans(),
)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "partition_key": st.text(max_size=5),
        "schema_version": st.just(bytes(8)),
        "deliver_at_time": st.just(5),
        "event_time": st.just(9),
        "num_messages_in_batch": st.just(1),
    },
)


@given(origins, metadata)
def test_the_bytes_of_the_producer_are_left(origin: Origin, fields: dict[str, object]) -> None:
    written = entry("text", **fields)
    assert unstamp(stamp(written, origin, bytes(8) if "schema_version" in fields else b""), "ewr", AT) == written


def test_the_stamps_of_a_run_are_removed() -> None:
    written = [entry("a"), entry("b" * 50, partition_key="k"), entry("c")]
    found = stamp_plain(written, EWR)
    assert found is not None
    each = enumerate(found[0])
    assert [unstamp(stamped, "ewr", Position(3, 7 + number)) for number, stamped in each] == written


@pytest.mark.parametrize(
    "stored",
    [
        entry("no stamp"),
        entry("damaged")[:-1] + b"D",
        b"\x0e\x01short",
        stamp(entry("text"), EWR, as_properties=True),
        stamp(entry("text"), EWR._replace(position=Position(3, 8))),
        stamp(entry("text"), EWR._replace(cluster="lga")),
        stamp_again(stamp(entry("text"), EWR), EWR),
        stamp(entry("text"), EWR)[:-1] + b"X",
    ],
    ids=["none", "damaged", "short", "earlier form", "elsewhere", "other cluster", "twice", "damaged payload"],
)
def test_any_other_entry_keeps_its_stamp(stored: bytes) -> None:
    assert unstamp(stored, "ewr", AT) is None


def test_a_property_of_the_producer_that_looks_like_a_stamp_stays() -> None:
    forged = place_of(EWR).decode("latin-1")
    written = entry("text", properties=[{"key": "k", "value": forged}])
    assert unstamp(stamp(written, EWR), "ewr", AT) == written
    assert unstamp(written, "ewr", AT) is None


def test_fields_behind_a_stamp_keep_it() -> None:
    serialized, payload = intact_parts(stamp(entry("text"), EWR))
    assert unstamp(assemble(serialized + b"\x60\x05", payload), "ewr", AT) is None
    assert SOURCE_POSITION.encode() in serialized
    assert LINK_PLACE_KEY in serialized
