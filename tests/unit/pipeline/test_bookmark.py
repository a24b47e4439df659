from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.receiving import Verdict
from magnetar.pipeline import limits
from magnetar.pipeline.rows import Attachment, Carried
from magnetar.pipeline.writing.bookmark import AskEnd, Bookmark, Effect, Fence, Flow, Mark, State, Subscribe
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.message_id import Link
from magnetar.wire.proto import pulsar_api_pb2 as pb

SOURCE_LEDGER, TARGET_LEDGER = 7, 3


def at_source(entry: int) -> Position:
    return Position(SOURCE_LEDGER, entry)


def at_target(entry: int) -> Position:
    return Position(TARGET_LEDGER, entry)


def carried(entry: int) -> Carried:
    previous = at_source(entry - 1) if entry else EARLIEST
    return Carried(Attachment(1, "ewr", "t"), at_source(entry), Link(previous, previous), b"")


def metadata(entry: int | None, cluster: str = "ewr", messages: int = 1) -> pb.MessageMetadata:
    """Return the metadata in the target's log of the source's ``entry``; None: an entry published in the target."""
    plain = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=messages)
    body = build_entry(plain, b"")
    if entry is not None:
        body = stamp(body, Origin(cluster, at_source(entry), carried(entry).link.previous, carried(entry).link.floor))
    return parse_metadata(body)


def reading(end: int, mark: int = -1) -> Bookmark:
    bookmark = Bookmark("ewr")
    assert bookmark.start() == [Subscribe()]
    assert bookmark.subscribed() == [Fence()]
    assert bookmark.fenced() == [AskEnd()]
    assert bookmark.told(at_target(end), at_target(mark)) == [Flow(limits.BOOKMARK_READ_AHEAD)]
    return bookmark


def test_an_empty_log_is_read_at_once() -> None:
    bookmark = Bookmark("ewr")
    assert bookmark.told(EARLIEST, EARLIEST) == []
    assert (bookmark.state, bookmark.last) == (State.READY, None)


def test_a_bookmark_at_the_end_is_ready_at_once() -> None:
    bookmark = Bookmark("ewr")
    assert bookmark.told(at_target(5), at_target(5)) == []
    assert bookmark.state is State.READY


def test_the_newest_entry_of_the_source_is_found_among_others() -> None:
    bookmark = reading(end=4)
    assert bookmark.read(at_target(0), metadata(0)) == [Mark(at_target(-1))]
    assert bookmark.read(at_target(1), metadata(None)) == []
    assert bookmark.read(at_target(2), metadata(1)) == [Mark(at_target(1))]
    assert bookmark.read(at_target(3), metadata(9, cluster="lga")) == []
    assert bookmark.read(at_target(4), metadata(None)) == []
    assert (bookmark.state, bookmark.last) == (State.READY, at_source(1))
    assert bookmark.judge(carried(1)) is Verdict.DUPLICATE
    assert bookmark.judge(carried(2)) is Verdict.APPEND


def test_without_entries_of_the_source_its_cursor_counts() -> None:
    bookmark = reading(end=0)
    assert bookmark.read(at_target(0), metadata(None)) == [Mark(at_target(0))], "it need not be read again"
    bookmark.resume(carried(5))
    assert bookmark.judge(carried(5)) is Verdict.APPEND


def test_entries_lost_by_the_log_are_a_gap() -> None:
    bookmark = reading(end=0)
    bookmark.read(at_target(0), metadata(2))
    bookmark.resume(carried(5))
    assert bookmark.judge(carried(5)) is Verdict.GAP
    assert bookmark.last == at_source(2)


def test_entries_without_their_predecessor_do_not_count() -> None:
    bookmark = reading(end=1)
    bookmark.read(at_target(0), metadata(2))
    bookmark.read(at_target(1), metadata(4))
    assert bookmark.last == at_source(2), "better 4 twice than 3 never"


def test_permits_are_for_messages() -> None:
    bookmark = reading(end=9)
    ahead = limits.BOOKMARK_READ_AHEAD
    assert bookmark.read(at_target(0), metadata(None, messages=ahead // 2 - 1)) == []
    assert bookmark.read(at_target(1), metadata(None, messages=ahead)) == [Flow(3 * ahead // 2 - 1)]


class Target:
    """A model of Apache Pulsar: a log, entries in flight to it, and a bookmark."""

    def __init__(self) -> None:
        self.log: list[int | None] = []
        self.arriving: list[int] = []
        """Sent, maybe by a writer that has ended, and not durable yet."""
        self.mark = -1
        self.older_mark = -1

    def settle(self, count: int | None = None) -> list[int]:
        """Make sent entries durable, in order."""
        done, self.arriving = (self.arriving, []) if count is None else (self.arriving[:count], self.arriving[count:])
        self.log += done
        return done

    def crash(self) -> None:
        """Drop everything that is not durable; a bookmark is persisted only sometimes."""
        self.arriving.clear()
        self.mark = self.older_mark


class Writer:
    """A writer like `magnetar.pipeline.writing.target`, starting at the source's cursor."""

    def __init__(self, target: Target, cursor: int) -> None:
        self.target = target
        self.next = cursor
        self.bookmark = Bookmark("ewr")
        self.carry_out(self.bookmark.start())

    def carry_out(self, effects: list[Effect]) -> None:
        target, bookmark = self.target, self.bookmark
        for effect in effects:
            match effect:
                case Subscribe():
                    self.carry_out(bookmark.subscribed())
                case Fence():
                    target.settle()
                    self.carry_out(bookmark.fenced())
                case AskEnd():
                    self.carry_out(bookmark.told(at_target(len(target.log) - 1), at_target(target.mark)))
                case Flow(_):
                    for place in range(target.mark + 1, len(target.log)):
                        self.carry_out(bookmark.read(at_target(place), metadata(target.log[place])))
                case Mark(position):
                    target.older_mark, target.mark = target.mark, max(target.mark, position.entry_id)

    def send(self, published: int, count: int) -> None:
        for entry in range(self.next, min(published, self.next + count)):
            self.bookmark.resume(carried(entry))
            verdict = self.bookmark.judge(carried(entry))
            assert verdict is not Verdict.GAP
            if verdict is Verdict.APPEND:
                self.target.arriving.append(entry)
            self.next = entry + 1

    def hear(self, count: int) -> int | None:
        """Receive receipts; return the newest receipted entry."""
        done = self.target.settle(count)
        for offset, _ in enumerate(done):
            place = len(self.target.log) - len(done) + offset
            self.carry_out([self.bookmark.receipt(at_target(place))])
        return done[-1] if done else None


MOVES = st.sampled_from(
    ["publish", "publish", "elsewhere", "send", "send", "hear", "hear", "acknowledge", "writer dies", "target dies"]
)


@given(st.lists(st.tuples(MOVES, st.integers(1, 5)), max_size=60))
@settings(max_examples=300, deadline=None)
def test_the_log_has_every_entry_once_and_in_order_after_any_crash(moves: list[tuple[str, int]]) -> None:
    target = Target()
    published = cursor = confirmed = 0
    writer = Writer(target, cursor)
    for move, number in moves:
        match move:
            case "publish":
                published += number
            case "elsewhere":
                target.settle()
                target.log += [None] * number
            case "send":
                writer.send(published, number)
            case "hear":
                newest = writer.hear(number)
                confirmed = confirmed if newest is None else newest + 1
            case "acknowledge":
                cursor = max(cursor, confirmed - number)
            case _:
                if move == "target dies":
                    target.crash()
                writer = Writer(target, cursor)
    writer = Writer(target, cursor)
    writer.send(published, published)
    target.settle()
    assert [entry for entry in target.log if entry is not None] == list(range(published))


def test_a_marker_goes_behind_the_entry_before_it_and_does_not_count() -> None:
    def marker(entry: int) -> Carried:
        return Carried(Attachment(1, "ewr", "t"), at_source(entry), Link(at_source(entry), at_source(entry)), b"")

    bookmark = reading(end=0)
    bookmark.read(at_target(0), metadata(1))
    assert bookmark.judge(marker(2)) is Verdict.GAP
    assert bookmark.judge(marker(1)) is Verdict.SKIP
    assert bookmark.judge(carried(2)) is Verdict.APPEND
    assert bookmark.judge(marker(2)) is Verdict.SKIP
    assert bookmark.last == at_source(2)
