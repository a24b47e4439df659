"""What a subscription asks of its dispatcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions
    from magnetar.cursor.ranges import Range


class Dispatcher(Protocol):
    """Hands a subscription's entries to its consumers. All calls are on the event loop's thread."""

    consumers: dict[Consumer, None]
    """In the order in which they came."""

    def rivals(self, options: ConsumerOptions) -> list[Consumer]:
        """Consumers because of which one that asks for this is refused, if they live."""
        ...

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer that asks for this is refused."""
        ...

    def suits(self, consumer: Consumer) -> bool:
        """Whether it can serve a consumer that is of its type, while it has no other."""
        ...

    def add(self, consumer: Consumer) -> None:
        """A consumer has subscribed and was told so."""
        ...

    def remove(self, consumer: Consumer) -> None:
        """A consumer is gone; what it held is dispatched again."""
        ...

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """The consumer wants these entries again; none named means all that it holds."""
        ...

    def holders(self, entries: Range) -> list[Consumer]:
        """The consumers that hold some of these entries, which are not acknowledged; none for what was not sent yet."""
        ...

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Entries were acknowledged: by a consumer of this subscription, or elsewhere (None)."""
        ...

    def dispatch(self) -> None:
        """Send at most one read's worth of what can be sent now; if there is more, notify the topic.

        So other subscriptions and connections get their turn in between, and a socket can say that it is full.
        """
        ...

    def close(self) -> None:
        """Stop reading."""
        ...
