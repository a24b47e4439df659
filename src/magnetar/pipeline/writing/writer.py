"""The writer of a task: it takes rows from Spark and sends their entries to the target.

Spark's thread only passes chunks on; a second thread runs the event loop with the target's connections. The reader's
credits limit the entries in flight, so the writer needs no limit of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvloop

from magnetar.pipeline import limits
from magnetar.pipeline.connections.channel import ReportSender
from magnetar.pipeline.connections.reports import Ready
from magnetar.pipeline.process import tune
from magnetar.pipeline.rows import Carried, Kind, Opening, bodies_in, decode_chunk, decode_opening, kind_of
from magnetar.pipeline.writing.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send every entry in ``batches`` to its target: the function for ``mapInArrow``. Yields nothing."""
    tune()
    writer: Writer | None = None
    try:
        for batch in batches:
            for body in bodies_in(batch):
                if kind_of(body) is Kind.OPENING:
                    writer = Writer(decode_opening(body))
                else:
                    assert writer is not None, "the first row is an OPENING"
                    writer.submit(decode_chunk(body))
    finally:
        if writer is not None:
            writer.close()
    yield from ()


class Writer:
    """The thread of the event loop, and its input."""

    def __init__(self, opening: Opening) -> None:
        """Start the thread; raises OSError if the reader has ended."""
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._loop = self._runner.get_loop()
        self._loop.set_exception_handler(self._note_failure)
        try:
            self._reports = ReportSender(self._loop, opening.channel)
        except OSError:
            self._runner.close()
            raise
        rng = random.Random(os.urandom(16))  # noqa: S311 - jitter, not secrets
        self._target = Target(self._loop, opening, self._reports.send, rng)
        self._input_ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer to {opening.target}", daemon=True)
        self._thread.start()

    def submit(self, entries: list[Carried]) -> None:
        """Send entries in order; raise the error that ended the thread, if any."""
        if self._failure is not None:
            raise self._failure
        self._loop.call_soon_threadsafe(self._target.send, entries)

    def close(self) -> None:
        """Wait for outstanding receipts, at most DRAIN_SECONDS, and stop the thread."""
        self._loop.call_soon_threadsafe(self._input_ended.set)
        self._thread.join()
        self._runner.close()

    def _run(self) -> None:
        try:
            self._runner.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the thread's root: the task raises it, and Spark retries the task
            self._failure = self._failure or error

    async def _serve(self) -> None:
        self._target.start()
        self._reports.send(Ready())
        try:
            await self._input_ended.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.DRAIN_SECONDS):
                    while self._target.outstanding and self._failure is None:  # noqa: ASYNC110 - asked for once
                        await asyncio.sleep(limits.DRAIN_POLL_SECONDS)
        finally:
            self._target.close()
            self._reports.close()

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an unhandled error of a callback: the thread ends, the task raises it, and Spark retries the task."""
        del loop
        self._failure = self._failure or context.get("exception") or RuntimeError(str(context["message"]))
        self._input_ended.set()
