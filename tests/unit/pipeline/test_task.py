"""The event loops of the reader and the writer of a task: how far they run, and the effects of bugs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.pipeline import limits
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions
from magnetar.pipeline.reading.reader import LeaseReader, TaskFailedError
from magnetar.pipeline.rows import Attachment, Carried, Kind, Opening, bodies_in, decode_opening, kind_of
from magnetar.pipeline.spreading import Assignment
from magnetar.pipeline.writing.writer import Writer
from magnetar.wire.message_id import Link
from tests.kit.child import free_ports
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE, SMALL = 128 * 1024, 1024


@pytest.fixture
def reader() -> Iterator[LeaseReader]:
    """A reader with unavailable clusters."""
    ports = free_ports(4)
    ewr, jfk = (
        ClusterAddress(name, f"pulsar://127.0.0.1:{ports.pop()}", f"http://127.0.0.1:{ports.pop()}")
        for name in ("ewr", "jfk")
    )
    with LeaseReader(Assignment("jfk", int(time.time() // 60)), ReplicationOptions((ewr, jfk))) as made:
        yield made


def keep_coming(reader: LeaseReader, size: int) -> list[int]:
    """Deliver an entry in each turn of the event loop; return the list of delivered ones."""
    came: list[int] = []
    attachment = Attachment(1, "ewr", "persistent://public/default/t")

    def come() -> None:
        came.append(size)
        reader.carry(Carried(attachment, Position(1, len(came)), Link(EARLIEST, EARLIEST), bytes(size)))
        reader.loop.call_soon(come)

    reader.loop.call_soon(come)
    return came


def test_a_backlog_of_large_entries_is_read_up_to_a_row_at_a_time(reader: LeaseReader) -> None:
    came = keep_coming(reader, LARGE)
    reader._step()
    assert limits.CHUNK_BYTES <= sum(came) <= 2 * limits.CHUNK_BYTES


def test_small_entries_are_handed_over_as_they_come(reader: LeaseReader) -> None:
    came = keep_coming(reader, SMALL)
    reader._step()
    assert len(came) <= 3


def test_a_step_ends_in_time_though_nothing_comes(reader: LeaseReader) -> None:
    before = time.monotonic()
    reader._step(0.05)
    assert 0.04 <= time.monotonic() - before < limits.IDLE_SECONDS


def test_a_reader_that_is_being_woken_ends(reader: LeaseReader) -> None:
    async def wait() -> None:
        await reader.loop.create_future()

    waiting = reader.loop.create_task(wait())
    waiting.add_done_callback(lambda _: reader._wake())
    reader._step(0.0)
    reader._wake()  # the fixture ends the reader


def test_a_bug_in_a_callback_fails_the_reading_half(reader: LeaseReader) -> None:
    reader.loop.call_soon(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        reader._step()


def test_a_bug_in_a_callback_fails_the_writing_half_and_ends_its_channel(reader: LeaseReader) -> None:
    rows = reader.rows()
    (opening,) = bodies_in(next(rows))
    assert kind_of(opening) is Kind.OPENING
    writer = Writer(decode_opening(opening))
    writer._loop.call_soon_threadsafe(lambda: 1 // 0)

    def submit_fails() -> bool:
        try:
            writer.submit([])
        except ZeroDivisionError:
            return True
        return False

    wait_until(submit_fails)
    writer.close()
    with pytest.raises(TaskFailedError, match="has ended"):
        next(rows)


def test_a_writer_whose_reader_has_gone_is_refused_at_once() -> None:
    with pytest.raises(OSError, match="No such file"):
        Writer(Opening("jfk", 1, "/nowhere/reports", "pulsar://127.0.0.1:1"))
