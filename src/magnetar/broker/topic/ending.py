"""The end of a topic: closing, abandoning after a failed load, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.loop.closing import close_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.broker.loop.closing import Step
    from magnetar.broker.topic.topic import Topic
    from magnetar.metadata.store import Put


def closing(topic: Topic) -> Iterator[Step]:
    """Disconnect all clients, which look the topic up again, and write remaining state: steps for ``close_one``.

    Other work may run between the steps, if no client is admitted. When the first consumer of a subscription is
    disconnected, the others get no more messages, and their commands are ignored.
    """
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
    steps: list[tuple[str, Callable[[], object]]] = [("progress", topic.progress.close)]
    if topic.snapshots is not None:
        steps.append(("snapshots", topic.snapshots.stop))
    steps += [("lag_limit", topic.lag_limit.close), ("deduplication", topic.deduplication.abandon)]
    steps += [(f"link to {target}", each.close) for target, each in topic.replicators.items()]
    steps += [(f"subscription {name}", each.close) for name, each in topic.subscriptions.items()]
    steps.append(("delayed", topic.delayed.abandon))
    close_each(topic.environment.loop, topic.name, steps)


def erasure(topic: Topic) -> Iterator[None]:
    """Delete a closed topic, its log and its cursors, in steps; one of them is the transaction.

    Raises StorageError; nothing is deleted then.
    """
    cursors = topic.cursors
    names = cursors.names()
    marks: list[Put] = []
    yield
    for name in names:
        marks += cursors.deletion(name)
        yield
    topic.ledger.delete(marks)
    yield
    marks_left: list[tuple[str, dict[str, Any]]] = []
    for name in names:
        mark = cursors.delete_ledger(name)
        if mark is not None:
            marks_left.append((name, mark))
        yield

    def delete_marks() -> None:
        """Delete the records of cursors whose ledgers are deleted, in slices, since each deletion is a write."""
        topic.environment.sliced.start(object(), marks_left, lambda mark: cursors.delete_mark(*mark))

    topic.environment.store.barrier(lambda error: delete_marks() if error is None else None)
    topic.log.origins.delete()
    topic.delayed.delete()
