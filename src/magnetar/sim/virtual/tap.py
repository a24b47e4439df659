"""An observer of the frames of simulated brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.session.session import Session

Place = TypeVar("Place")
"""The cluster whose broker is observed."""


class Tap(Generic[Place]):
    """An observer of the frames of brokers; each method is called right before the broker acts on the data."""

    def received(self, site: Place, session: Session, data: bytes) -> Callable[[], None]:
        """Observe bytes from a client; the result is called after the broker handled them, or when it ended."""
        raise NotImplementedError

    def sent(self, site: Place, session: Session, frame: bytes) -> None:
        """Observe a frame to a client."""
        raise NotImplementedError

    def committed(self, site: Place) -> None:
        """Observe that entries have become durable and were reported, or that a topic is about to be closed."""
        raise NotImplementedError
