"""One thread's loop over sockets, timers and what other threads hand in.

Readers and writers live inside Spark's generators, which own the thread, so the loop is stepped from outside.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.client.blocking import BlockingConnection
from magnetar.client.options import ClientOptions
from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.wire.frame import Frame

_OPTIONS = ClientOptions(replicator=True)


class Dialled(Protocol):
    """What the pipeline needs of a connection; see BlockingConnection."""

    @property
    def peer_is_magnetar(self) -> bool:
        """See BlockingConnection."""
        ...

    @property
    def peer_life(self) -> str:
        """See BlockingConnection."""
        ...

    @property
    def peer_max_message_size(self) -> int:
        """See BlockingConnection."""
        ...

    @property
    def receipts_name_source(self) -> bool:
        """See BlockingConnection."""
        ...

    @property
    def next_tick_at(self) -> float:
        """See BlockingConnection."""
        ...

    @property
    def want_write(self) -> bool:
        """See BlockingConnection."""
        ...

    def fileno(self) -> int:
        """See BlockingConnection."""
        ...

    def send(self, frame: bytes) -> None:
        """See BlockingConnection."""
        ...

    def flush(self) -> None:
        """See BlockingConnection."""
        ...

    def pump(self, timeout_s: float) -> list[Frame]:
        """See BlockingConnection."""
        ...

    def close(self) -> None:
        """See BlockingConnection."""
        ...


class Timer:
    """A call that is due at a time; ``cancel`` makes it none."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        """Keep the call."""
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the call; harmless when it has been made."""
        self._callback = None

    def fire(self) -> None:
        """Make the call, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Loop:
    """Readiness of sockets, timers by the monotonic clock, and calls from other threads."""

    def __init__(self) -> None:
        """Open the loop; `close` releases it."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._ties = itertools.count()
        self._soon: deque[Callable[[], None]] = deque()
        self._handed_in: deque[Callable[[], None]] = deque()
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.settimeout(0.0)
        self.watch(self._wake_reader.fileno(), self._take_in)

    @property
    def now(self) -> float:
        """Seconds of the clock that timers go by."""
        return time.monotonic()

    def watch(self, descriptor: int, on_ready: Callable[[], None], *, write: bool = False) -> None:
        """Call ``on_ready`` whenever ``descriptor`` can be read or, with ``write``, written; replaces a watch."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events, on_ready)
        else:
            self._selector.register(descriptor, events, on_ready)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching; harmless when it is not watched."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Make the call at monotonic time ``when`` or soon after."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (when, next(self._ties), timer))
        return timer

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Make the call in ``seconds``."""
        return self.call_at(self.now + seconds, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Make the call before the loop waits again."""
        self._soon.append(callback)

    def dial(self, url: str, then: Callable[[Dialled | None, str], None]) -> None:
        """Connect to a broker in a thread; ``then`` gets the connection, or None and the reason why there is none."""
        threading.Thread(target=self._dial, args=(url, then), name=f"dial {url}", daemon=True).start()

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Hand in a call from any thread. After `close` it is never made."""
        self._handed_in.append(callback)
        # A full pipe already wakes the loop; a closed one has nobody to wake.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    def step(self, longest: float) -> None:
        """Wait at most ``longest`` seconds for something to do, and do all that is due."""
        if self._soon:
            longest = 0.0
        elif self._timers:
            longest = max(0.0, min(longest, self._timers[0][0] - self.now))
        for key, _ in self._selector.select(longest):
            key.data()
        now = self.now
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def close(self) -> None:
        """Release the descriptors that the loop opened itself."""
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _dial(self, url: str, then: Callable[[Dialled | None, str], None]) -> None:
        try:
            connection = BlockingConnection.connect(url, limits.CONNECT_TIMEOUT_SECONDS, _OPTIONS)
        except (MagnetarError, OSError) as error:
            reason = f"{url}: {error}"
            self.call_from_thread(lambda: then(None, reason))
        else:
            self.call_from_thread(lambda: then(connection, ""))

    def _take_in(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_reader.recv(4096)
        while self._handed_in:
            self._handed_in.popleft()()
