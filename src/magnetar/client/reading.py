"""Decision whether the socket of a connection is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Reading:
    """The socket is not read while the user of the connection forbids it, and while received frames are left over.

    One read can bring 20,000 frames, which take 0.4 s. Brokers have connections to those of other clusters, in the
    event loop that serves their clients.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, go_on: Callable[[], None]) -> None:
        """Create it without a socket; ``go_on`` processes frames that are left over, in a later turn of ``loop``."""
        self.is_paused = False
        """Whether the user of the connection forbids reading."""
        self._loop = loop
        self._go_on = go_on
        self._transport: asyncio.Transport | None = None
        self._is_behind = False
        self._next: asyncio.Handle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Read the socket of ``transport``."""
        self._transport = transport

    def end(self) -> None:
        """Process nothing more: the connection has ended."""
        self._transport, self._go_on = None, _nothing

    def pause(self) -> None:
        """Stop reading until ``resume``."""
        self.is_paused = True
        self._apply()

    def resume(self) -> None:
        """Continue reading."""
        self.is_paused = False
        self._apply()

    def processed(self, *, has_more: bool) -> None:
        """Note that frames were processed, and whether some are left over."""
        if has_more and self._next is None:
            self._next = self._loop.call_soon(self._continue)
        if has_more != self._is_behind:
            self._is_behind = has_more
            self._apply()

    def _continue(self) -> None:
        self._next = None
        self._go_on()

    def _apply(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self.is_paused or self._is_behind:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _nothing() -> None:
    """Do nothing: the connection has ended."""
