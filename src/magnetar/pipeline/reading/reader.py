"""The reader of a task: it reads all sources of one target for one lease, and yields rows.

One event loop serves the source connections and the back-channel. The generator runs the loop between two rows. The
loop pauses only while Spark takes a row; the writer always accepts rows, so the pause is short.
`magnetar.pipeline.driver.source` calls the reader.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.errors import MagnetarError
from magnetar.pipeline import limits
from magnetar.pipeline.connections.channel import ReportReceiver
from magnetar.pipeline.connections.reports import Ready, Report
from magnetar.pipeline.leases import Schedule
from magnetar.pipeline.namespaces import NamespaceWatch
from magnetar.pipeline.process import tune
from magnetar.pipeline.reading.carrying import CarryingTask
from magnetar.pipeline.rows import Carried, Opening, encode_chunks, encode_opening, row
from magnetar.pipeline.status import StatusSender, TaskStatus
from magnetar.wire.links import LINK_BUCKETS, link_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from magnetar.base.names import NamespaceName
    from magnetar.pipeline.options import ReplicationOptions
    from magnetar.pipeline.spreading import Assignment

STATUS_SECONDS = 1.0
"""Seconds between two status messages."""


class TaskFailedError(MagnetarError):
    """The writer of the task has ended; Spark retries the task, which attaches again."""


class LeaseReader(CarryingTask):
    """The reader of one task, and the shared state of its sources (`magnetar.pipeline.reading.task.Task`)."""

    def __init__(self, assignment: Assignment, options: ReplicationOptions) -> None:
        """Create a reader for the links of ``assignment``; `rows` runs it."""
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
        self._addresses = addresses = {cluster.name: cluster for cluster in options.clusters}
        self._client_confs = {name: address.client_conf for name, address in addresses.items()}
        self._target_url = addresses.pop(assignment.target).broker_url
        self._source_urls = {name: address.broker_url for name, address in addresses.items()}
        rng = random.Random(os.urandom(16))  # noqa: S311 - jitter, not secrets
        super().__init__(self._runner.get_loop(), assignment, options.pipeline, addresses.values(), rng)
        self.loop.set_exception_handler(self._note_failure)
        self._failure: BaseException | None = None
        self._is_waking = False
        self._arrived_bytes = 0
        self._schedule = Schedule(options.lease_seconds)
        self._entries = 0
        self._read_bytes: defaultdict[str, int] = defaultdict(int)
        """Bytes of the entries by topic, since the last status."""
        self._traffic = [0] * LINK_BUCKETS
        """Bytes of the entries by bucket, until the last status."""
        self._writer_ready = False
        self._paused = False
        self._admin_down: dict[str, str] = {}
        self._channel = ReportReceiver(self.loop, self._report, self._wake)
        self._options = options
        self._watches: dict[str, NamespaceWatch] = {}
        """By source, if its broker does not report the namespaces."""
        self._status = StatusSender((options.status_host, options.status_port)) if options.status_port else None

        self._plan_beat()

    def __enter__(self) -> Self:
        """Return the reader; nothing runs yet."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close sockets and stop threads, because Spark reuses the worker process for other tasks."""
        for watch in self._watches.values():
            watch.stop()
        for source in self._sources.values():
            source.close()
        self._channel.close()
        if self._status is not None:
            self._status.close()
        if self._is_waking:
            self.loop.run_forever()  # otherwise the pending stop would end the loop before its tasks are cancelled
        self._is_waking = True  # nothing stops it from now on
        self._runner.close()

    @property
    def succeeded(self) -> bool:
        """Return whether the slot is over, so that lost links belong to the successor."""
        return time.time() >= self._schedule.end(self.lease)

    def carry(self, carried: Carried) -> None:
        """Queue an entry for the writer."""
        super().carry(carried)
        size = len(carried.entry)
        self._arrived_bytes += size
        self._read_bytes[carried.attachment.topic] += size
        self._wake()

    def forget(self, number: int) -> None:
        """Stop sending entries of an attachment that has ended."""
        super().forget(number)
        self._wake()

    def poll_namespaces(self, source: str) -> None:
        """See Task: a thread polls admin ports."""
        if source in self._watches:
            return

        def changed(namespaces: tuple[NamespaceName, ...] | None, reason: str) -> None:
            self._admin_down[source] = reason
            if namespaces is not None:
                self.loop.call_soon_threadsafe(self._sources[source].serve, tuple(map(str, namespaces)))

        watch = self._watches[source] = NamespaceWatch(self._addresses[source], self.target, self._options, changed)
        watch.start()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield rows until the lease is over; raises TaskFailedError if the writer has ended."""
        tune()
        urls, path = (self._target_url, self._source_urls), self._channel.path
        opening = Opening(self.target, self.lease, path, *urls, self._client_confs)
        yield row(encode_opening(opening), is_last=True)
        self._warm_up()
        last_burst = 0.0
        while not self._over():
            if (wait := last_burst + limits.BURST_INTERVAL_SECONDS - self.loop.time()) > 0:
                time.sleep(wait)
            self._step()
            if entries := self._outflow.take(self.loop.time()):
                yield from self._burst(entries)
                last_burst = self.loop.time()

    def _burst(self, entries: list[Carried]) -> Iterator[pa.RecordBatch]:
        self._entries += sum([carried.entries for carried in entries])
        chunks = encode_chunks(entries)
        chunk = next(chunks)
        for following in chunks:
            yield row(chunk, is_last=False)
            chunk = following
        yield row(chunk, is_last=True)

    def _warm_up(self) -> None:
        """Connect to all clusters, then wait for the slot and for the writer."""
        for source in self._sources.values():
            source.start()
        deadline = self.loop.time() + limits.CHANNEL_TIMEOUT_SECONDS
        start = self._schedule.start(self.lease)
        while not self._writer_ready or time.time() < start:
            self._step(start - time.time() if self._writer_ready else limits.IDLE_SECONDS)
            if not self._writer_ready and self.loop.time() >= deadline:
                message = f"the writer for {self.target} did not report within {limits.CHANNEL_TIMEOUT_SECONDS} s"
                raise TaskFailedError(message)
        self.begin()
        self._send_status()

    def _step(self, longest: float = limits.IDLE_SECONDS) -> None:
        """Run the event loop until there may be entries to pass on, or for ``longest`` seconds.

        A backlog is read until a row is full, or no more entries arrive at once.
        """
        self._arrived_bytes = 0
        timer = self.loop.call_later(max(0.0, longest), self._wake) if longest < limits.IDLE_SECONDS else None
        self._run()
        if timer is not None:
            timer.cancel()
        before = 0
        while self._arrived_bytes - before >= limits.BACKLOG_READ_BYTES and self._arrived_bytes < limits.CHUNK_BYTES:
            before = self._arrived_bytes
            self._wake()
            self._run()
        if self.budget.overdrawn or (self._paused and not self.budget.spent):
            self._pause(paused=self.budget.overdrawn)
        if self._channel.broken:
            message = f"the writer for {self.target} has ended"
            raise TaskFailedError(message)

    def _run(self) -> None:
        """Run the event loop until it is woken up; raise the error of a failed callback."""
        self.loop.run_forever()
        self._is_waking = False
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        """Wake the generator after this turn of the event loop and after its output was sent."""
        if not self._is_waking:
            self._is_waking = True
            self.loop.call_soon(self.loop.stop)

    def _plan_beat(self) -> None:
        """Wake the generator from time to time: one timer costs less than one for each step."""
        self.loop.call_later(limits.IDLE_SECONDS, self._beat)

    def _beat(self) -> None:
        self._plan_beat()
        self._wake()

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an unhandled error of a callback or task: this task fails, and Spark retries it."""
        del loop
        self._failure = self._failure or context.get("exception") or RuntimeError(str(context["message"]))
        self._wake()

    def _pause(self, *, paused: bool) -> None:
        if paused is not self._paused:
            self._paused = paused
            for source in self._sources.values():
                source.pause(paused=paused)

    def _over(self) -> bool:
        """Return whether the successor holds every link, or the task must end for its query's next lease."""
        if time.time() >= self._schedule.hard_end(self.lease):
            return True
        if self.succeeded:
            for source in self._sources.values():
                source.end_slot()
        displaced = any(source.displacements or source.due.is_superseded for source in self._sources.values())
        return self.succeeded and displaced and not any(source.live_links for source in self._sources.values())

    def _report(self, report: Report) -> None:
        self._wake()
        if isinstance(report, Ready):
            self._writer_ready = True
        self.take(report)

    def _send_status(self) -> None:
        self.loop.call_later(STATUS_SECONDS, self._send_status)
        if self._status is None:
            return
        down = {source.source: source.down_reason for source in self._sources.values() if source.down_reason}
        down |= {f"{name} (admin)": reason for name, reason in self._admin_down.items() if reason}
        if self._target_down:
            down[self.target] = self._target_down
        parked = {
            f"{name} {topic}": why for name, source in self._sources.items() for topic, why in source.parked.items()
        }
        for topic, size in self._read_bytes.items():
            self._traffic[link_bucket(topic)] += size
        self._read_bytes.clear()
        self._status.send(
            TaskStatus(
                target=self.target,
                lease=self.lease,
                part=self.assignment.part,
                traffic=self._traffic,
                carrying=self._begun,
                down=down,
                links=sum(source.live_links for source in self._sources.values()),
                parked=parked,
                rivals=sorted(set().union(*(source.rivals for source in self._sources.values()))),
                entries=self._entries,
                in_flight_bytes=self.budget.used,
            ),
        )
