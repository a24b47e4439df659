"""The writer's state of its target, with a broker that grants everything."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline.connections.reports import Receipts, Refused, Report, TargetDown, TargetLost, TargetUp
from magnetar.pipeline.rows import Attachment, Carried, Opening
from magnetar.pipeline.writing import schemas
from magnetar.pipeline.writing.target import Target
from magnetar.schema.info import version_to_bytes
from magnetar.sim.cluster import entry
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.earlier_stamps import PREVIOUS_POSITION
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.markers import marker_type
from magnetar.wire.entries.origin import SOURCE_POSITION, Origin, origin_of, read_origin
from magnetar.wire.links import CUSTODY_IN_RUNS, CUSTODY_ONE_BY_ONE, RUN_ENTRIES_MAX
from magnetar.wire.message_id import Link, OriginPosition, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.pipeline.hand_broker import HandBroker, HandLoop, RestingBroker

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 1000
ORDERS, PAYMENTS = "persistent://public/default/orders", "persistent://public/default/payments"


class Writer:
    """A target, its broker, and the reports."""

    def __init__(
        self,
        *sources: HandBroker,
        max_message_size: int = LIMIT,
        version: str = "Magnetar",
        takes_runs: bool = False,
        reads_place: bool = True,
    ) -> None:
        self.broker = HandBroker("pulsar://jfk:6650", max_message_size)
        self.broker.version, self.broker.takes_runs, self.broker.reads_place = version, takes_runs, reads_place
        self.loop = HandLoop(self.broker, *sources)
        self.reports: list[Report] = []
        rng = random.Random(1)
        urls = {"ewr": sources[0].url} if sources else {}
        opening = Opening("jfk", 1, "/run/reports", self.broker.url, urls)
        self.target = Target(self.loop, opening, self.reports.append, rng)
        self.target.start()
        self.loop.run()

    def send(self, *entries: Carried) -> None:
        self.target.send(list(entries))
        self.loop.run()

    def take(self) -> Sequence[Report]:
        reports = self.reports[:]
        self.reports.clear()
        return reports


def carried(topic: str, number: int, entry_id: int, size: int = 10, **metadata: object) -> Carried:
    previous = Position(3, entry_id - 1) if entry_id else EARLIEST
    attachment = Attachment(number, "ewr", topic)
    return Carried(attachment, Position(3, entry_id), Link(previous, previous), entry("x" * size, **metadata))


def run_of(topic: str, number: int, first: int, *sizes: int, version: bytes = b"") -> Carried:
    entries = [entry("x" * size) for size in sizes]
    one = carried(topic, number, first)
    return one._replace(entry=b"".join(entries), sizes=tuple(map(len, entries)), schema_version=version)


def test_a_run_is_sent_at_once_and_confirmed_with_its_last_entry() -> None:
    writer = Writer(takes_runs=True)
    run = run_of(ORDERS, 1, 0, 1, 2, 3)
    writer.send(run, carried(ORDERS, 1, 3))
    (sent,) = writer.broker.runs
    assert (list(sent.entry_sizes), sent.schema_version) == (list(run.sizes), b"")
    assert [position_of(place) for place in (sent.origin_message_id, sent.previous_message_id)] == [
        Position(3, 0),
        EARLIEST,
    ]
    assert writer.broker.entries[1][0] == run.entry
    assert writer.take()[-1] == Receipts(((1, Position(3, 3)),))
    assert writer.target.outstanding == 0


def test_a_run_in_custody_names_its_origin() -> None:
    writer, at = Writer(takes_runs=True), OriginPosition("lga", Position(9, 4))
    writer.send(run_of(ORDERS, 1, 0, 1, 2)._replace(link=Link(Position(9, 1), Position(9, 3)), origin=at))
    (sent,) = writer.broker.runs
    assert (sent.origin_cluster, position_of(sent.origin_message_id)) == at
    assert [position_of(place) for place in (sent.previous_message_id, sent.floor_message_id)] == [
        Position(9, 1),
        Position(9, 3),
    ]
    assert writer.take()[-1] == Receipts(((1, Position(3, 1)),))


def test_the_entries_of_a_large_run_in_custody_have_stamps_of_their_origin() -> None:
    writer, at = Writer(takes_runs=True, max_message_size=LIMIT), OriginPosition("lga", Position(9, 4))
    writer.send(run_of(ORDERS, 1, 0, 4000, 3000, 1000)._replace(link=Link(Position(9, 1), Position(9, 3)), origin=at))
    assert writer.broker.runs == []
    assert [read_origin(each) for each in writer.broker.entries[1]] == [
        Origin("lga", Position(9, 4), Position(9, 1), Position(9, 3)),
        Origin("lga", Position(9, 5), Position(9, 4), Position(9, 4)),
        Origin("lga", Position(9, 6), Position(9, 5), Position(9, 5)),
    ]
    assert writer.take()[-1] == Receipts(((1, Position(3, 2)),))


@pytest.mark.parametrize("takes_runs", [False, True])
def test_the_entries_of_a_run_are_sent_one_by_one_to_a_target_that_cannot_take_it(*, takes_runs: bool) -> None:
    writer = Writer(takes_runs=takes_runs, max_message_size=LIMIT)
    writer.send(run_of(ORDERS, 1, 0, 4000, 3000, 1000))
    assert writer.broker.runs == []
    assert copied(writer) == [(Position(3, number), None) for number in range(3)]
    assert writer.take()[-1] == Receipts(((1, Position(3, 2)),))


def test_a_run_with_more_entries_than_a_run_may_have_is_sent_one_by_one() -> None:
    writer = Writer(takes_runs=True, max_message_size=100_000)
    writer.send(run_of(ORDERS, 1, 0, *[1] * (RUN_ENTRIES_MAX + 1)))
    assert writer.broker.runs == []
    assert len(copied(writer)) == RUN_ENTRIES_MAX + 1


def test_the_entries_of_a_run_are_sent_one_by_one_to_a_foreign_target() -> None:
    writer = Writer(version="Apache Pulsar")
    writer.send(run_of(ORDERS, 1, 0, 1, 2))
    assert writer.broker.runs == []


@pytest.mark.parametrize(
    ("version", "reads_place", "has_properties"),
    [("Magnetar", True, False), ("Magnetar", False, True), ("Apache Pulsar", False, False)],
)
def test_a_broker_of_an_earlier_release_gets_the_place_as_properties(
    *, version: str, reads_place: bool, has_properties: bool
) -> None:
    writer = Writer(version=version, reads_place=reads_place)
    writer.send(carried(ORDERS, 1, 0))
    metadata = parse_metadata(writer.broker.entries[1][-1])
    assert [each.key for each in metadata.properties] == [SOURCE_POSITION, *[PREVIOUS_POSITION] * has_properties]
    assert metadata.HasField("link_place") is not has_properties


def test_the_entries_of_a_run_after_a_refused_one_are_dropped() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0))
    writer.take()
    damaged, after = entry("damaged")[:-1] + b"D", entry("after")
    run = carried(ORDERS, 1, 1)._replace(entry=damaged + after + after, sizes=(len(damaged), len(after), len(after)))
    writer.send(run)
    (refused,) = writer.take()
    assert isinstance(refused, Refused)
    assert refused.reason == "entry 3:1: checksum of the entry at 3:1 does not match"
    assert copied(writer) == [(Position(3, 0), None)]


def test_the_refusal_of_a_run_names_its_entries() -> None:
    writer = Writer(takes_runs=True)
    writer.broker.entries_max = 0
    writer.send(run_of(ORDERS, 1, 0, 1, 2))
    refused = writer.take()[-1]
    assert isinstance(refused, Refused)
    assert refused.reason == "run of 2 entries up to 3:1: full"


def test_a_run_waits_for_its_schema_at_the_target() -> None:
    origin = source(FLIGHT)
    writer = Writer(origin, takes_runs=True)
    writer.broker.schemas[ORDERS] = [AIRPORT]
    writer.send(run_of(ORDERS, 1, 0, 1, 2, version=version_to_bytes(0)))
    assert [sent.schema_version for sent in writer.broker.runs] == [version_to_bytes(1)]
    assert writer.broker.schemas[ORDERS] == [AIRPORT, FLIGHT]


def test_each_marker_in_the_place_of_an_entry_is_confirmed() -> None:
    """The source must know which of its updates have arrived, so that it does not repeat them."""
    writer = Writer()
    place = Position(3, 0)
    update = markers.build_marker(markers.UPDATE, b"", publish_time_ms=1)
    marker = Carried(Attachment(1, "ewr", ORDERS), place, Link(place, place), update)
    writer.send(carried(ORDERS, 1, 0), marker, marker)
    assert writer.take()[-1] == Receipts(((1, place),) * 3)
    writer.send(marker, carried(ORDERS, 1, 1))
    assert writer.take() == [Receipts(((1, Position(3, 1)),))]


def test_an_entry_that_is_too_large_for_the_target_parks_its_topic_alone() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0), carried(PAYMENTS, 2, 0))
    writer.take()
    writer.send(carried(ORDERS, 1, 1, size=LIMIT + 11_000), carried(ORDERS, 1, 2), carried(PAYMENTS, 2, 1))
    refused, *others = writer.take()
    assert isinstance(refused, Refused)
    assert (refused.attachment, refused.end) == (1, None)
    assert refused.reason.startswith("entry 3:1: a frame of 12")
    assert refused.reason.endswith(f"bytes, jfk takes {LIMIT + 10 * 1024} (maxMessageSize)")
    assert others == [Receipts(((2, Position(3, 1)),))]
    assert writer.broker.connections == 1
    assert max(len(body) for sent in writer.broker.entries.values() for body in sent) < LIMIT


def test_entries_before_one_that_is_too_large_are_confirmed_before_the_refusal() -> None:
    """Otherwise the source would repeat them, and take their confirmation for progress of the parked link."""
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0), carried(ORDERS, 1, 1, size=LIMIT + 11_000), carried(ORDERS, 1, 2))
    up, confirmed, refused = writer.take()
    assert (up, confirmed) == (TargetUp(), Receipts(((1, Position(3, 0)),)))
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("entry 3:1: a frame of 12")
    assert copied(writer) == [(Position(3, 0), None)]
    writer.send(carried(ORDERS, 2, 1))
    assert writer.take() == [Receipts(((2, Position(3, 1)),))]


def test_a_lost_target_forgets_a_refusal_that_waits_for_receipts() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0))
    writer.target.send([carried(ORDERS, 1, 1), carried(ORDERS, 1, 2, size=LIMIT + 11_000)])
    writer.broker.drop()
    writer.loop.run()
    up, confirmed, lost, down = writer.take()
    assert (type(up), type(confirmed), type(down)) == (TargetUp, Receipts, TargetDown)
    assert isinstance(lost, Refused)
    assert "maxMessageSize" not in lost.reason
    writer.loop.pass_time(10)
    writer.send(carried(ORDERS, 2, 1))
    assert writer.take() == [TargetUp(), Receipts(((2, Position(3, 1)),))]


@pytest.mark.parametrize("version", ["Magnetar", "Pulsar Server 4.0.7"])
def test_entries_behind_one_that_came_while_the_target_was_lost_are_dropped(version: str) -> None:
    """Otherwise a target could not detect that it lacks an entry of Apache Pulsar, which names no previous entry."""
    writer = Writer(version=version)
    writer.broker.drop()
    writer.loop.run()
    entries = [carried(ORDERS, 1, number)._replace(link=Link()) for number in range(2)]
    writer.send(entries[0])
    writer.loop.pass_time(10)
    writer.send(entries[1])
    assert writer.broker.entries == {}
    writer.take()
    writer.send(*(each._replace(attachment=Attachment(2, "ewr", ORDERS)) for each in entries))
    assert writer.take() == [Receipts(((2, Position(3, 1)),))]


def test_a_refused_entry_is_no_gap_and_is_reported_after_the_receipts_before_it() -> None:
    writer = Writer()
    writer.broker.entries_max = 2
    writer.send(*(carried(ORDERS, 1, number) for number in range(4)))
    assert writer.take() == [TargetUp(), Receipts(((1, Position(3, 1)),)), Refused(1, "entry 3:2: full")]


def test_the_link_goes_on_once_the_target_takes_larger_messages() -> None:
    writer = Writer()
    writer.send(carried(ORDERS, 1, 0, size=LIMIT + 11_000))
    writer.broker.max_message_size = 20_000
    writer.broker.drop()
    writer.loop.run()
    assert [type(report) for report in writer.take()] == [TargetUp, Refused, TargetDown]
    writer.loop.pass_time(10)
    writer.send(carried(ORDERS, 2, 0, size=LIMIT + 11_000))
    assert writer.take() == [TargetUp(), Receipts(((2, Position(3, 0)),))]


def test_the_target_is_told_the_life_of_the_source_where_that_is_known() -> None:
    writer = Writer()
    first, other = carried(ORDERS, 1, 0), carried(PAYMENTS, 2, 0)
    writer.send(first._replace(attachment=first.attachment._replace(life="ab12@1000")), other)
    assert writer.broker.metadata == [{"magnetar.life": "ab12@1000"}, {}]


def test_entries_of_another_life_of_the_source_get_a_producer_that_names_it() -> None:
    writer = Writer()
    lost, found = (
        each._replace(attachment=each.attachment._replace(life=life))
        for each, life in ((carried(ORDERS, 1, 0), "ab12@1000"), (carried(ORDERS, 2, 0), "cd34@5000"))
    )
    writer.send(lost)
    writer.take()
    writer.send(found)
    assert writer.broker.metadata == [{"magnetar.life": "ab12@1000"}, {"magnetar.life": "cd34@5000"}]
    assert writer.take() == [
        Refused(1, "the source lost its data and came back"),
        Receipts(((2, Position(3, 0)),)),
    ]


def test_a_foreign_target_is_asked_where_its_log_ends_before_anything_is_sent() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.send(carried(ORDERS, 1, 0), carried(ORDERS, 1, 1))
    assert writer.take() == [TargetUp(), Receipts(((1, Position(3, 1)),))]
    assert writer.broker.bookmarks == ["magnetar.bookmark.ewr"]
    fence, *entries = writer.broker.entries[1]
    assert marker_type(parse_metadata(fence)) is not None
    origins = [origin_of(parse_metadata(each)) for each in entries]
    assert [origin.position for origin in origins if origin is not None] == [Position(3, 0), Position(3, 1)]


def test_a_foreign_target_that_closes_the_bookmark_ends_the_link_until_it_is_taken_up_again() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.send(carried(ORDERS, 1, 0))
    writer.take()
    writer.broker.say(commands.close_consumer(consumer_id=1))
    writer.loop.run()
    assert writer.take() == [Refused(1, "the bookmark's consumer: the broker closed the consumer")]
    writer.send(carried(ORDERS, 2, 0))
    assert [type(report) for report in writer.take()] == [Receipts]


def test_a_bookmark_that_is_refused_refuses_the_link() -> None:
    writer = Writer(version="Pulsar Server 4.0.7")
    writer.broker.rival = "host:1:a"
    writer.send(carried(ORDERS, 1, 0))
    assert writer.take() == [TargetUp(), Refused(1, "held")]


FLIGHT, AIRPORT = (
    pb.Schema(name="", schema_data=f'"{kind}"'.encode(), type=pb.Schema.Avro) for kind in ("int", "long")
)


def source(*schemas: pb.Schema, topic: str = ORDERS) -> HandBroker:
    """A source whose topic has these schemas."""
    broker = HandBroker("pulsar://ewr:6650")
    broker.schemas[topic] = list(schemas)
    return broker


def copied(writer: Writer, number: int = 1) -> list[tuple[Position, bytes | None]]:
    """Origin positions and schema versions of the entries at the target."""
    found = []
    for each in writer.broker.entries.get(number, []):
        metadata, origin = parse_metadata(each), origin_of(parse_metadata(each))
        assert origin is not None
        found.append((origin.position, metadata.schema_version if metadata.HasField("schema_version") else None))
    return found


def test_a_schema_is_registered_before_the_first_entry_that_needs_it() -> None:
    origin = source(FLIGHT, AIRPORT)
    writer = Writer(origin)
    writer.broker.schemas[ORDERS] = [pb.Schema(name="", schema_data=b"", type=pb.Schema.String), AIRPORT]
    versions = [version_to_bytes(number) for number in range(3)]
    writer.send(
        carried(ORDERS, 1, 0),
        carried(ORDERS, 1, 1, schema_version=versions[1]),
        carried(ORDERS, 1, 2),
        carried(ORDERS, 1, 3, schema_version=versions[0]),
        carried(ORDERS, 1, 4, schema_version=versions[1]),
    )
    assert copied(writer) == [
        (Position(3, 0), None),
        (Position(3, 1), versions[1]),
        (Position(3, 2), None),
        (Position(3, 3), versions[2]),
        (Position(3, 4), versions[1]),
    ]
    assert writer.broker.schemas[ORDERS][2] == FLIGHT
    assert writer.take()[-1] == Receipts(((1, Position(3, 4)),))
    assert origin.asked == [versions[1], versions[0]], "each version is asked for once"
    assert writer.broker.registering == ["pulsar.repl.ewr-->jfk"] * 2


def test_entries_of_other_topics_do_not_wait() -> None:
    origin = source(FLIGHT)
    origin.holds_schemas = True
    writer = Writer(origin)
    writer.send(
        carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)), carried(ORDERS, 1, 1), carried(PAYMENTS, 2, 0)
    )
    assert writer.take() == [TargetUp(), Receipts(((2, Position(3, 0)),))]
    assert writer.target.outstanding == 2
    origin.release()
    writer.loop.run()
    assert writer.take() == [Receipts(((1, Position(3, 1)),))]
    assert writer.target.outstanding == 0


def test_a_version_that_the_source_has_not_any_more_is_removed() -> None:
    writer = Writer(source())
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)), carried(ORDERS, 1, 1, schema_version=b"\0"))
    assert copied(writer) == [(Position(3, 0), None), (Position(3, 1), None)]


def test_a_schema_that_the_target_refuses_parks_its_topic() -> None:
    writer = Writer(source(FLIGHT))
    writer.broker.clash = "incompatible"
    versioned = carried(ORDERS, 1, 1, schema_version=version_to_bytes(0))
    writer.send(carried(ORDERS, 1, 0), versioned, carried(ORDERS, 1, 2), carried(PAYMENTS, 2, 0))
    confirmed = Receipts(((1, Position(3, 0)), (2, Position(3, 0))))
    assert writer.take() == [TargetUp(), confirmed, Refused(1, "schema of entry 3:1: incompatible")]
    assert copied(writer) == [(Position(3, 0), None)]
    writer.broker.clash = ""
    again = carried(ORDERS, 3, 1, schema_version=version_to_bytes(0))
    writer.send(again, carried(ORDERS, 3, 2))
    assert copied(writer, 3) == [(Position(3, 1), version_to_bytes(0)), (Position(3, 2), None)]


def test_a_source_that_does_not_answer_parks_the_topic() -> None:
    writer = Writer(source(FLIGHT))
    del writer.loop._brokers["ewr"]
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)))
    assert writer.take() == [TargetUp(), Refused(1, "schema of entry 3:0: nobody is there")]


def test_versions_are_found_again_after_the_target_was_lost() -> None:
    writer = Writer(source(FLIGHT))
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)))
    writer.broker.schemas[ORDERS] = [AIRPORT]
    writer.broker.drop()
    writer.loop.run()
    writer.loop.pass_time(10)
    writer.send(carried(ORDERS, 2, 1, schema_version=version_to_bytes(0)))
    assert copied(writer, 2) == [(Position(3, 1), version_to_bytes(1))]


def test_versions_are_found_again_after_the_source_lost_its_data() -> None:
    origin = source(FLIGHT)
    writer = Writer(origin)
    lost, found = (
        each._replace(attachment=each.attachment._replace(life=life))
        for each, life in (
            (carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)), "ab12@1000"),
            (carried(ORDERS, 2, 0, schema_version=version_to_bytes(0)), "cd34@5000"),
        )
    )
    writer.send(lost)
    origin.schemas[ORDERS] = [AIRPORT]
    writer.send(found)
    assert writer.broker.schemas[ORDERS] == [FLIGHT, AIRPORT]
    assert copied(writer, 2) == [(Position(3, 0), version_to_bytes(1))]


def test_versions_are_found_again_after_a_topic_was_created_again() -> None:
    """The source gives the versions of the deleted topic to other schemas, and so does the target."""
    origin = source(FLIGHT)
    writer = Writer(origin)
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)))
    origin.schemas[ORDERS] = [AIRPORT]
    writer.send(carried(ORDERS, 2, 1, schema_version=version_to_bytes(0)))
    writer.broker.schemas[ORDERS] = []
    writer.send(carried(ORDERS, 3, 2, schema_version=version_to_bytes(0)))
    assert copied(writer) == [
        (Position(3, 0), version_to_bytes(0)),
        (Position(3, 1), version_to_bytes(1)),
        (Position(3, 2), version_to_bytes(0)),
    ]
    assert writer.broker.schemas[ORDERS] == [AIRPORT]


def test_waiting_entries_are_dropped_with_their_producer() -> None:
    origin = source(FLIGHT)
    origin.holds_schemas = True
    writer = Writer(origin)
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)))
    writer.broker.drop()
    writer.loop.run()
    assert writer.target.outstanding == 0
    writer.loop.pass_time(10)
    origin.release()
    writer.loop.run()
    assert copied(writer) == []
    writer.send(carried(ORDERS, 2, 0, schema_version=version_to_bytes(0)))
    origin.release()
    writer.loop.run()
    assert copied(writer, 2) == [(Position(3, 0), version_to_bytes(0))]


def test_a_client_that_makes_versions_up_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "KNOWN_MAX", 2)
    origin = source(FLIGHT)
    writer = Writer(origin)
    numbers = (0, 7, 8, 9, 0, 0)
    writer.send(*(carried(ORDERS, 1, at, schema_version=version_to_bytes(each)) for at, each in enumerate(numbers)))
    first = version_to_bytes(0)
    assert [version for _, version in copied(writer)] == [first, None, None, None, first, first]
    assert len(origin.asked) == 5
    assert len(writer.target._versions._known) <= 2


def test_a_version_that_is_too_long_is_removed_unasked() -> None:
    origin = source(FLIGHT)
    writer = Writer(origin)
    longest = schemas.VERSION_SIZE_MAX
    versions = [b"\0" * longest, b"\0" * (longest + 1)]
    writer.send(*(carried(ORDERS, 1, at, schema_version=each) for at, each in enumerate(versions)))
    assert [version for _, version in copied(writer)] == [None, None]
    assert origin.asked == versions[:1]


def test_the_mark_of_an_external_schema_stays() -> None:
    origin = source()
    writer = Writer(origin)
    writer.send(carried(ORDERS, 1, 0, schema_version=schemas.EXTERNAL_VERSION))
    assert [version for _, version in copied(writer)] == [schemas.EXTERNAL_VERSION]
    assert origin.asked == []


@pytest.mark.parametrize("is_known", [True, False])
def test_a_target_that_does_not_know_external_schemas_parks_their_topics_alone(is_known: bool) -> None:
    writer = Writer(source(pb.Schema(name="", schema_data=b"", type=pb.Schema.External)))
    writer.send(carried(PAYMENTS, 2, 0))
    other = HandBroker(writer.broker.url)  # the target's end of a second connection
    other.knows_external = is_known
    writer.loop._brokers["jfk"] = other
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)), carried(PAYMENTS, 2, 1))
    reports = writer.take()
    confirmed = {each for report in reports if isinstance(report, Receipts) for each in report.confirmed}
    refused = [report for report in reports if isinstance(report, Refused)]
    assert confirmed >= {(2, Position(3, 1))}
    assert ((1, Position(3, 0)) in confirmed) is is_known
    assert [report.attachment for report in refused] == ([] if is_known else [1])
    assert other.connection is None, "it is closed after use"
    assert (other.connections, writer.broker.connections) == (1, 1)


def test_a_foreign_target_gets_schemas_too() -> None:
    writer = Writer(source(FLIGHT), version="Pulsar Server 4.0.7")
    writer.send(carried(ORDERS, 1, 0, schema_version=version_to_bytes(0)), carried(ORDERS, 1, 1))
    _, *entries = writer.broker.entries[1]
    assert [parse_metadata(each).schema_version for each in entries] == [version_to_bytes(0), b""]
    assert writer.take() == [TargetUp(), Receipts(((1, Position(3, 1)),))]


@pytest.mark.parametrize("custody", ["", CUSTODY_ONE_BY_ONE, CUSTODY_IN_RUNS])
def test_a_target_is_up_when_it_reports_its_losses(custody: str) -> None:
    broker, reports = RestingBroker("pulsar://jfk:6650"), list[Report]()
    broker.takes_custody = custody != ""
    broker.takes_custody_runs = custody == CUSTODY_IN_RUNS
    loop = HandLoop(broker)
    target = Target(loop, Opening("jfk", 1, "/run/reports", broker.url, {}), reports.append, random.Random(1))
    target.start()
    loop.run()
    broker.say(commands.topics_lost(state="run:1", topics=[ORDERS]))
    loop.run()
    assert reports == [TargetUp("run:0", custody), TargetLost("run:1", (ORDERS,))]
