"""Loading, unloading and deletion of topics, which drive the events of their lifecycles.

Requests for a topic to which no client may attach wait for ``unloaded``. A topic is loaded from durable data, so it is
loaded only when all its earlier writes are durable. The index records that its recovery needs are read in another
thread before.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError, RequestError, ServerError, StorageError
from magnetar.base.tasks import report_bug, start_task
from magnetar.broker.log.origin_summaries import has_summary
from magnetar.broker.loop.closing import close_each, close_one
from magnetar.broker.loop.slices import at_once
from magnetar.broker.topic.ending import abandon, closing, deletion
from magnetar.broker.topic.lifecycle import SHUT, Event, Lifecycle, State
from magnetar.broker.topic.load_failures import LoadFailures
from magnetar.broker.topic.topic import Topic
from magnetar.cursor.store import cursor_ledgers
from magnetar.ledger.ledger_list import listed_ledgers
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.metadata.resources import managed_ledger_path

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.loop.closing import Step
    from magnetar.broker.topic.lifecycle import OnChange
    from magnetar.metadata.store import OnDurable


class TopicLoader:
    """The topics that are loaded, or being loaded or unloaded. Used on the event loop's thread."""

    def __init__(self, environment: Environment, free: Callable[[TopicName], None]) -> None:
        """Create the loader; ``free`` is called for each unloaded topic that may be loaded again."""
        self._environment = environment
        self._free = free
        self.loaded: dict[TopicName, Topic] = {}
        """Topics that can be found by name: OPEN, DISMISSING, DRAINING and FENCED."""
        self.failures = LoadFailures(environment.clock)
        """Topics whose last load failed."""
        self.when_closed: Callable[[Topic], None] = lambda _: None
        """Called for each unloaded topic when it is closed, also because its deletion failed."""
        self.when_changed: OnChange = lambda *_: None
        """Called after each event that has an effect on a topic."""
        self._is_closed = False
        self._shut: dict[TopicName, tuple[Lifecycle, asyncio.Event]] = {}
        """Topics to which no client may attach; the event is set when clients may attach."""
        self._closing: dict[Topic, Iterator[Step]] = {}
        """Topics that are being closed, with the remaining steps."""

    # -- loading ------------------------------------------------------------------------------------------------

    def load(self, name: TopicName) -> Topic:
        """Load a topic that is not loaded, or create it; raises RequestError.

        If index records must be read, that begins, and the request is refused with ServiceNotReady.
        """
        lifecycle = self._begin(name)
        ledgers = at_once(self._ledgers(name, lifecycle))
        reading = self._environment.store.hold_runs(ledgers)
        if reading is None:
            return at_once(self._loading(name, lifecycle, ledgers))
        self._load_after(name, lifecycle, ledgers, reading, lambda: None)
        raise _is_busy(name)

    def load_in_slices(self, name: TopicName, then: Callable[[], None]) -> None:
        """Load a topic while no client may attach, then call ``then``; raises RequestError if loading cannot begin.

        If it fails, the next request for the topic gets the reason.
        """
        lifecycle = self._begin(name)

        def steps() -> Iterator[None]:
            reading = None
            with suppress(RequestError):
                ledgers = yield from self._ledgers(name, lifecycle)
                reading = self._environment.store.hold_runs(ledgers)
                if reading is None:
                    yield from self._loading(name, lifecycle, ledgers)
                else:
                    self._load_after(name, lifecycle, ledgers, reading, then)
            if reading is None:
                then()

        self._environment.sliced.start(lifecycle, steps(), lambda _: None)

    def _load_after(
        self,
        name: TopicName,
        lifecycle: Lifecycle,
        ledgers: Sequence[int],
        reading: Coroutine[Any, Any, None],
        then: Callable[[], None],
    ) -> None:
        """Load a topic in slices when ``reading`` holds the runs of its ledgers."""
        environment = self._environment

        def steps() -> Iterator[None]:
            with suppress(RequestError):
                yield from self._loading(name, lifecycle, ledgers)
            then()

        async def read_and_load() -> None:
            try:
                await reading
            except BaseException:
                lifecycle.apply(Event.LOAD_FAILED)
                raise
            if lifecycle.state is State.LOADING:
                environment.sliced.start(lifecycle, steps(), lambda _: None)

        start_task(environment.loop, read_and_load(), f"loading {name}")

    def _begin(self, name: TopicName) -> Lifecycle:
        if name in self._shut:
            raise _is_busy(name)
        self._check_running()
        self.failures.check(name)
        lifecycle = Lifecycle(partial(self._changed, name))
        lifecycle.apply(Event.LOAD)
        return lifecycle

    def _ledgers(self, name: TopicName, lifecycle: Lifecycle) -> Generator[None, None, list[int]]:
        """Find the ledgers whose runs the recovery reads."""
        try:
            with self._contained(name):
                return (yield from ledgers_to_recover(self._environment, name))
        except BaseException:
            lifecycle.apply(Event.LOAD_FAILED)
            raise

    def _loading(self, name: TopicName, lifecycle: Lifecycle, ledgers: Sequence[int]) -> Generator[None, None, Topic]:
        try:
            with self._contained(name):
                topic = yield from self._recovery(name, lifecycle)
        except BaseException:
            lifecycle.apply(Event.LOAD_FAILED)
            raise
        finally:
            self._environment.store.release_runs(ledgers)
        self.failures.recovered(name)
        self.loaded[name] = topic
        lifecycle.apply(Event.LOADED)
        if topic.log.failure is not None:  # found out while it was loaded
            topic.fence(topic.log.failure)
        return topic

    def _recovery(self, name: TopicName, lifecycle: Lifecycle) -> Generator[None, None, Topic]:
        environment = self._environment
        ledger = ManagedLedger.open(
            environment.store, environment.metadata, name, environment.ledger_config, environment.clock
        )
        ledger.create()
        topic = Topic(environment, name, ledger, lifecycle)
        try:
            yield from topic.recovery()
        except BaseException:
            abandon(topic)
            raise
        return topic

    @contextmanager
    def _contained(self, name: TopicName) -> Iterator[None]:
        """The root of one topic's recovery: any error in its data leaves the other topics available."""
        try:
            yield
        except RequestError:
            raise
        except Exception as error:
            if not isinstance(error, MagnetarError | OSError | ValueError | KeyError | TypeError):
                report_bug(self._environment.loop, f"loading {name} failed", error)
            raise self.failures.failed(name, error) from error

    # -- waiting ------------------------------------------------------------------------------------------------

    def is_shut(self, name: TopicName) -> bool:
        """Return whether no client may attach to the topic before ``opened`` returns."""
        return name in self._shut

    async def opened(self, name: TopicName) -> None:
        """Return when clients may attach to the topic; at once if they may now."""
        while (shut := self._shut.get(name)) is not None:
            await shut[1].wait()

    def _changed(self, name: TopicName, lifecycle: Lifecycle, before: State, event: Event) -> None:
        """Perform the action of a new state."""
        if lifecycle.state not in SHUT:
            shut = self._shut.pop(name, None)
            if shut is not None:
                shut[1].set()
        elif name not in self._shut:
            self._shut[name] = lifecycle, asyncio.Event()
            if lifecycle.state in (State.DRAINING, State.FENCED):
                self._drain(self.loaded[name])
        self.when_changed(lifecycle, before, event)

    # -- unloading ----------------------------------------------------------------------------------------------

    def unload(self, name: TopicName) -> None:
        """Close a topic when all its entries are durable; clients look it up again, which loads it.

        The topic accepts no entries from now on. Producers are closed after the receipts of earlier entries; otherwise
        they would send them again.
        """
        topic = self.loaded.get(name)
        if topic is not None:
            topic.lifecycle.apply(Event.UNLOAD)

    def _drain(self, topic: Topic) -> None:
        close_one(self._environment.loop, topic.name, "receipts", topic.lag_limit.release_all)
        topic.log.barrier(lambda _: self._close(topic))

    def _close(self, topic: Topic) -> None:
        """Close a topic in slices, unless it was deleted, or closed with the broker, in the meantime."""
        if not topic.lifecycle.apply(Event.DRAINED):
            return
        loop, name = self._environment.loop, topic.name
        steps = self._begin_closing(topic)
        last = [("unloaded", lambda: self._closed(topic))]
        self._environment.sliced.start(topic, chain(steps, last), lambda step: close_one(loop, name, *step))

    def _begin_closing(self, topic: Topic) -> Iterator[Step]:
        """Remove a topic from the loaded ones; return the remaining steps."""
        del self.loaded[topic.name]
        steps = self._closing[topic] = closing(topic)
        return steps

    def _closed(self, topic: Topic) -> None:
        if topic.lifecycle.apply(Event.CLOSED):
            del self._closing[topic]
            self.when_closed(topic)
            self._settle(topic)

    def _settle(self, topic: Topic) -> None:
        """Wait until all writes of the topic are durable or have failed; a failed one of the log may cause another."""
        metadata = self._environment.metadata
        topic.log.barrier(lambda _: metadata.barrier(lambda _: self._settled(topic)))

    def _settled(self, topic: Topic) -> None:
        """Release a topic without pending writes."""
        self._environment.retired.add(topic)
        if topic.lifecycle.apply(Event.SETTLED):
            self.failures.unloaded(topic.name, topic.unstored, topic.loaded_at)
            self._free(topic.name)

    # -- deleting -----------------------------------------------------------------------------------------------

    def deletion(self, topic: Topic, done: OnDurable) -> Generator[None, None, None]:
        """Delete a loaded topic with all its data; ``done`` is called when that is durable, or has failed.

        No client may attach between the steps, nor before ``done``. Until the deletion is durable, the topic is
        equivalent to an unloaded one: if the steps end early, because the broker stops or by an error, nothing is
        deleted. Raises StorageError, RequestError.
        """

        def deleted(error: StorageError | None) -> None:
            done(error)
            if error is not None:
                self._not_deleted(topic)
                return
            self._environment.retired.add(topic)
            topic.lifecycle.apply(Event.DELETED)

        topic.lifecycle.apply(Event.DELETE)
        loop, steps = self._environment.loop, self._begin_closing(topic)
        try:
            for step, close in steps:
                close_one(loop, topic.name, step, close)
                yield
            self._check_running()
            yield from deletion(topic, deleted)
        except BaseException:
            close_each(loop, topic.name, steps)
            self._not_deleted(topic)
            raise
        finally:
            self._closing.pop(topic, None)

    def _not_deleted(self, topic: Topic) -> None:
        if topic.lifecycle.apply(Event.DELETION_FAILED):
            self.when_closed(topic)
        self._settle(topic)

    # -- the end ------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Close all topics in slices; no topic is loaded from now on. When cancelled, it closes the rest at once."""
        self._is_closed = True
        try:
            await self._environment.slices.run(self._stopping())
        finally:
            self._close_rest()

    def _stopping(self) -> Generator[None, None, None]:
        for name, topic in tuple(self.loaded.items()):
            if topic.lifecycle.state in SHUT or self.loaded.get(name) is not topic:
                continue  # it is being closed already
            if topic.lifecycle.state is not State.STOPPED:
                topic.lifecycle.apply(Event.STOP)
            for step, close in self._begin_closing(topic):
                close_one(self._environment.loop, name, step, close)
                yield
            self._closing.pop(topic, None)

    def _close_rest(self) -> None:
        """Close all topics at once that are not closed yet."""
        for lifecycle, _ in tuple(self._shut.values()):
            lifecycle.apply(Event.STOP)
            self._environment.sliced.cancel(lifecycle)
        for topic, steps in self._closing.items():
            close_each(self._environment.loop, topic.name, steps)
        self._closing.clear()
        for name in tuple(self.loaded):
            topic = self.loaded.pop(name)
            if topic.lifecycle.state is not State.STOPPED:
                topic.lifecycle.apply(Event.STOP)
            close_each(self._environment.loop, name, closing(topic))

    def _check_running(self) -> None:
        if self._is_closed:
            raise RequestError(ServerError.ServiceNotReady, "The broker is shutting down")


def ledgers_to_recover(environment: Environment, name: TopicName) -> Generator[None, None, list[int]]:
    """Find the ledgers whose runs the recovery of a topic reads, in steps; unreadable metadata name none."""
    store, metadata = environment.store, environment.metadata
    found: list[int] = []
    stored = metadata.get(managed_ledger_path(name))
    for ledger_id in listed_ledgers(stored.value) or () if stored is not None else ():
        with suppress(StorageError):  # a listed ledger without entries need not exist
            if not has_summary(metadata, name, ledger_id, store.length(ledger_id)):
                found.append(ledger_id)
        yield
    for _, cursor_ledger in cursor_ledgers(metadata, name):
        if cursor_ledger is not None:
            found.append(cursor_ledger)
        yield
    return found


def _is_busy(name: TopicName) -> RequestError:
    return RequestError(ServerError.ServiceNotReady, f"Topic {name} is being loaded or unloaded")
