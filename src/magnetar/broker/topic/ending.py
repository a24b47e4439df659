"""The end of a topic: closing, abandoning after a failed load, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.loop.closing import close_each
from magnetar.cursor.store import NO_LEDGER, deletion_mark
from magnetar.metadata.store import Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.broker.loop.closing import Step
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.store import OnDurable, Put


def closing(topic: Topic) -> Iterator[Step]:
    """Disconnect all clients, which look the topic up again, and write remaining state: steps for ``close_one``.

    Other work may run between the steps, if no client is admitted. When the first consumer of a subscription is
    disconnected, the others get no more messages, and their commands are ignored.
    """
    yield "migration fence", topic.log.migration_fence.close
    yield "receipts", topic.lag_limit.release_all
    yield from topic.producers.closing()
    for subscription in tuple(topic.subscriptions.values()):
        for consumer in subscription.detach_all():
            yield f"consumer {consumer.name}", consumer.close
    yield "lag_limit", topic.lag_limit.close
    yield "progress", topic.progress.close
    if topic.snapshots is not None:
        yield "snapshots", topic.snapshots.close
    yield "deduplication", topic.deduplication.close
    for target, replicator in topic.replicators.items():
        yield f"link to {target}", replicator.close
    for name, subscription in tuple(topic.subscriptions.items()):
        yield f"subscription {name}", subscription.close
    yield "delayed", topic.delayed.close
    yield "ledger", topic.ledger.close
    yield "origins", topic.log.origins.save


def abandon(topic: Topic) -> None:
    """Stop the parts of a topic that could not be loaded; nothing is written."""
    for cursor in topic.all_cursors():
        cursor.close()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("migration fence", topic.log.migration_fence.close),
        ("progress", topic.progress.close),
    ]
    if topic.snapshots is not None:
        steps.append(("snapshots", topic.snapshots.stop))
    steps += [("lag_limit", topic.lag_limit.close), ("deduplication", topic.deduplication.abandon)]
    steps += [(f"link to {target}", each.close) for target, each in topic.replicators.items()]
    steps += [(f"subscription {name}", each.close) for name, each in topic.subscriptions.items()]
    steps.append(("delayed", topic.delayed.abandon))
    close_each(topic.environment.loop, topic.name, steps)


def deletion(topic: Topic, done: OnDurable) -> Iterator[None]:
    """Delete a closed topic, its log, its cursors and its schemas in one transaction; the steps collect it.

    ``done`` is called when it is durable and what is left of the topic is deleted as well, or with the reason why
    nothing is deleted. Raises StorageError if that is known at once.
    """
    marks: list[Put] = []
    ledger_ids: list[int] = []
    for path, ledger_id in topic.cursors.records():
        marks.append(deletion_mark(path, ledger_id))
        if ledger_id != NO_LEDGER:
            ledger_ids.append(ledger_id)
        yield

    def deleted(error: StorageError | None) -> None:
        if error is None:
            topic.environment.sliced.start(object(), _remainder(topic, marks, done), lambda _: None)
        else:
            done(error)

    topic.ledger.delete(ledger_ids, [*marks, *topic.environment.schemas.removal(topic.name)], deleted)


def _remainder(topic: Topic, marks: Sequence[Put], done: OnDurable) -> Iterator[None]:
    """Delete what is left of a deleted topic, in slices, since each deletion is a write.

    The next start does what these have not done.
    """
    metadata = topic.environment.metadata
    topic.delayed.delete()
    topic.log.origins.delete()
    for mark in marks:
        metadata.commit([Delete(mark.path)])
        yield
    yield from topic.ledger.erasure()
    done(None)
