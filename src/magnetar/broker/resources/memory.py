"""The memory that a broker holds for its clients: shares, their limits, and admission. Pure.

Each kind of memory has a share with a limit in bytes. Some shares drain without help of clients, such as publishes in
flight. They are divided by one rule: a connection may continue while it holds no more than the free part of the share.
If n connections take the maximum, the share has n + 1 equal parts: one for each connection, and a free one. So no
flood of requests uses up the share, and no list of connections is needed. A connection that holds at most SMALL_BYTES
is never delayed. The size of a socket read is only known afterwards, so reads become smaller when memory is short.

A large frame drains only if its client sends the rest of it. So it is admitted as a whole, and connections whose frames
wait for admission are not read. A client that stops in the middle of a frame while others wait is disconnected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.memory_share import SMALL_BYTES, STALL_BYTES, Share
from magnetar.broker.resources.reads_in_flight import ReadsInFlight
from magnetar.broker.resources.send_buffers import SendBuffers, Unsent

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.resources.memory_limits import MemoryLimits

LARGE_FRAME_BYTES = 256 * 1024
"""Bytes of a frame above which it needs admission; SMALL_BYTES while unfinished smaller frames hold much memory."""

READ_BYTES = 256 * 1024
"""Maximum bytes of one read of a socket."""

READ_BYTES_MIN = 16 * 1024
"""Maximum bytes of one read while the memory for arriving frames is used up."""

STALL_S = 1.0
"""Seconds within which a client must send STALL_BYTES while others wait for it."""


class LargeFrames(Share):
    """Large frames, from their admission until their publishes are durable; ``used`` is the sum of their full sizes.

    ``used`` never exceeds ``limit``.
    """

    __slots__ = ("_newest_is_next", "_unfinished", "_waiting")

    def __init__(self, limit: int) -> None:
        """Admit frames of at most ``limit`` bytes in all; ``limit`` must not be less than the largest frame."""
        super().__init__(limit)
        self._unfinished: dict[Account, None] = {}
        """Connections with an admitted, unfinished frame, in the order of admission."""
        self._waiting: dict[Account, None] = {}
        """Connections with a waiting frame, in order of arrival."""
        self._newest_is_next = True
        """Whether the newest waiting frame is admitted next, or the oldest; alternates. So a new client is not delayed
        by all earlier clients that do not finish their frames."""

    @property
    def in_flight(self) -> int:
        """Bytes of frames that are complete and not durable yet."""
        return self.used - sum([account.frame_size for account in self._unfinished])

    def admits(self, account: Account, size: int) -> bool:
        """Admit a frame, or queue it; return whether it was admitted."""
        if not self._waiting and self.used + size <= self.limit:
            self._unfinished[account] = None
            self.used += size
            return True
        self._waiting[account] = None
        return False

    def has_admitted(self, account: Account) -> bool:
        """Return whether ``account`` has an admitted, unfinished frame."""
        return account in self._unfinished

    def end(self, account: Account) -> None:
        """Remove the unfinished or waiting frame of ``account``."""
        self._unfinished.pop(account, None)
        self._waiting.pop(account, None)

    def give_back(self, size: int) -> None:
        """Release ``size`` bytes, and admit the waiting frames that fit now."""
        self.used -= size
        while self._waiting:
            account = next(reversed(self._waiting) if self._newest_is_next else iter(self._waiting))
            if self.used + account.frame_size > self.limit:
                return
            self._newest_is_next = not self._newest_is_next
            del self._waiting[account]
            self._unfinished[account] = None
            self.used += account.frame_size
            account.admitted()

    def stalled(self, now: float) -> list[Account]:
        """Return the connections that delay others and have not sent STALL_BYTES in the last STALL_S.

        Call it periodically: the time of a connection starts at the first call after its admission.
        """
        return [account for account in self._unfinished if account.has_stalled(now)] if self._waiting else []


def _resume_nobody() -> None:
    """Do nothing: the connection is closed."""


class Account:
    """The memory of one connection.

    Large frames of a connection use a share of their own until the connection has finished its first large frame. So
    clients that start large frames and stop do not delay clients that are known to finish theirs.
    """

    __slots__ = (
        "_budget",
        "_deferred",
        "_first_large",
        "_frames",
        "_has_finished",
        "_is_large",
        "_large",
        "_looked_at",
        "_missing_then",
        "_publishes",
        "_publishing",
        "_resume",
        "_small",
        "_small_held",
        "_waiting_held",
        "frame_held",
        "frame_missing",
        "is_read",
        "unsent",
    )

    def __init__(self, budget: MemoryBudget, resume: Callable[[], None]) -> None:
        """Create an empty account; ``resume`` is called when a waiting large frame is admitted."""
        self._budget = budget
        self._publishes = budget.publishes
        self.unsent = Unsent(budget.sending)
        self._frames = budget.first_frames
        """The share of its newest large frame, admitted or waiting."""
        self._resume = resume
        self._publishing = 0
        """Bytes of its publishes in flight."""
        self._large = 0
        """Bytes of its large frames: at most those in flight plus the admitted, unfinished one."""
        self._first_large = 0
        """Part of ``_large`` that was admitted before the connection finished its first large frame."""
        self._small = 0
        """Bytes of its publishes in flight in the share of publishes: those in excess of ``_large``.

        ``_count_small`` follows each change of ``_large``, so while that is 0 all publishes in flight are counted here.
        """
        self._has_finished = False
        """Whether it has finished a large frame."""
        self._is_large = False
        """Whether its unfinished frame needs admission."""
        self._small_held = 0
        """Received bytes of its unfinished frame, if it needs no admission."""
        self._waiting_held = 0
        """Received bytes of its unfinished frame, if it waits for admission."""
        self._deferred = 0
        """Bytes that were read and wait for a later turn of the loop."""
        self._looked_at: float | None = None
        """Time at which progress was last seen; None if there was no check since the admission."""
        self._missing_then = 0
        """Missing bytes of the frame at ``_looked_at``."""
        self.frame_held = 0
        """Received bytes of its unfinished frame."""
        self.frame_missing = 0
        """Missing bytes of its unfinished frame."""
        self.is_read = True
        """Whether its socket is read. A client whose socket is not read does not stall."""

    @property
    def frame_size(self) -> int:
        """Bytes of its unfinished frame; 0 if it has none."""
        return self.frame_held + self.frame_missing

    # -- publishes ----------------------------------------------------------------------------------------------

    def publish(self, size: int) -> bool:
        """Add publishes of ``size`` bytes; return whether the connection may continue."""
        self._publishing += size
        if self._large:
            self._count_small()
        else:
            self._small += size
            self._publishes.used += size
        return self._small <= SMALL_BYTES or self._small <= self._publishes.room

    def published(self, size: int) -> None:
        """Remove publishes of ``size`` bytes, durable or failed."""
        self._publishing -= size
        if self._large:
            self._settle()
        else:
            self._small -= size
            self._publishes.used -= size

    @property
    def may_publish_again(self) -> bool:
        """Return whether a paused connection may continue: it holds at most half of its limit."""
        return self._small <= self._publishes.room // 2

    # -- arriving frames ----------------------------------------------------------------------------------------

    def arrived(self, held: int, missing: int) -> bool:
        """Record an unfinished frame after a read (0 and 0: none); return whether reading may continue.

        If not, ``resume`` is called later.
        """
        self._budget.frames_held += held - self.frame_held
        was_large = self._is_large
        # The missing bytes of a frame decrease with each read. A new frame has more missing bytes than the end of one.
        goes_on = 0 < missing < self.frame_missing
        self.frame_held, self.frame_missing = held, missing
        if was_large:
            if goes_on:
                self._note_held()
                return self._frames.has_admitted(self)
            self._has_finished = self._has_finished or self._frames.has_admitted(self)
            self._frames.end(self)
            self._settle()
        self._is_large = held + missing > self._budget.large_frame_bytes
        may_arrive = not self._is_large or self._ask()
        self._note_held()
        return may_arrive

    @property
    def is_admitted(self) -> bool:
        """Whether its unfinished frame was admitted, and so is counted with its full size."""
        return self._is_large and self._frames.has_admitted(self)

    def admitted(self) -> None:
        """Continue with a large frame that waited."""
        self._begin_large()
        self._note_held()
        self._resume()

    def has_stalled(self, now: float) -> bool:
        """Return whether the client was able to send, but sent less than STALL_BYTES in the last STALL_S."""
        if self._looked_at is not None and self.is_read:
            if now - self._looked_at < STALL_S:
                return False
            if self._missing_then - self.frame_missing < STALL_BYTES:
                return True
        self._looked_at, self._missing_then = now, self.frame_missing
        return False

    def close(self) -> None:
        """Remove the unfinished frame of a closed connection; its publishes in flight still count."""
        self._budget.frames_held -= self.frame_held
        self.frame_held = self.frame_missing = 0
        self._is_large = False
        self._note_held()
        self.handled()
        self._frames.end(self)
        self._settle()
        self._resume = _resume_nobody  # no reference to the session, so that it is freed at once
        self.unsent.close()

    def defer(self, size: int) -> None:
        """Add ``size`` bytes that were read and wait for a later turn of the loop."""
        self._deferred += size
        self._budget.deferred += size

    def handled(self) -> None:
        """Remove the bytes that waited for a later turn; all of them have been handled."""
        self._budget.deferred -= self._deferred
        self._deferred = 0

    def _note_held(self) -> None:
        """Count the received bytes of an unfinished frame that was not admitted."""
        small = 0 if self._is_large else self.frame_held
        waiting = self.frame_held if self._is_large and not self.is_admitted else 0
        self._budget.small_frames_held += small - self._small_held
        self._budget.waiting_frames_held += waiting - self._waiting_held
        self._small_held, self._waiting_held = small, waiting

    def _ask(self) -> bool:
        """Request the admission of the large frame that has begun; return whether it was admitted."""
        self._frames = self._budget.later_frames if self._has_finished else self._budget.first_frames
        if not self._frames.admits(self, self.frame_size):
            return False
        self._begin_large()
        return True

    def _begin_large(self) -> None:
        self._large += self.frame_size
        if not self._has_finished:
            self._first_large += self.frame_size
        self._looked_at = None
        self._count_small()

    def _settle(self) -> None:
        """Release the large frames that are neither in flight nor unfinished."""
        if not self._large:
            return
        unfinished = self.frame_size if self._frames.has_admitted(self) else 0
        settled = self._large - self._publishing - unfinished
        if settled > 0:
            first = min(settled, self._first_large)  # the first large frames came before the others
            self._large -= settled
            self._first_large -= first
            self._budget.first_frames.give_back(first)
            self._budget.later_frames.give_back(settled - first)
        self._count_small()

    def _count_small(self) -> None:
        small = max(self._publishing - self._large, 0)
        self._publishes.used += small - self._small
        self._small = small


class MemoryBudget:
    """All shares of one broker."""

    def __init__(self, limits: MemoryLimits) -> None:
        """Create empty shares. Half of the publish memory is for large frames; the largest must fit in a quarter."""
        self.limits = limits
        quarter = limits.publishes // 4
        self.publishes = Share(limits.publishes - 2 * quarter)
        self._held_if_ample = self.publishes.limit - 2 * READ_BYTES
        """Maximum bytes of arriving small frames at the full size of reads, in addition to large frames."""
        self.first_frames = LargeFrames(quarter)
        self.later_frames = LargeFrames(quarter)
        self.frames_held = 0
        """Received bytes of unfinished frames, large and small."""
        self.small_frames_held = 0
        """Received bytes of unfinished frames that need no admission."""
        self.waiting_frames_held = 0
        """Received bytes of unfinished frames that wait for admission."""
        self.deferred = 0
        """Bytes that were read and wait for a later turn of the loop."""
        self.bodies = Share(limits.bodies)
        self.reads = ReadsInFlight(limits.reads, limits.one_read)
        self.sending = SendBuffers(limits.sending, limits.connection_sending)
        self.answers = SendBuffers(limits.answers, limits.answers)

    @property
    def publishes_in_flight(self) -> int:
        """Bytes of the publishes that are not durable yet."""
        return self.publishes.used + self.first_frames.in_flight + self.later_frames.in_flight

    @property
    def held(self) -> int:
        """Bytes of all shares except the caches."""
        rest = self.bodies.used + self.answers.used
        arriving = self.publishes_in_flight + self.frames_held + self.deferred
        return arriving + self.reads.used + self.sending.used + rest

    @property
    def large_frame_bytes(self) -> int:
        """Size in bytes above which a frame needs admission now."""
        is_short = self.small_frames_held > self.first_frames.limit
        return SMALL_BYTES if is_short else LARGE_FRAME_BYTES

    def read_size(self, account: Account) -> int:
        """Return the maximum bytes of the next read of a connection's socket: at most half of the free memory."""
        held = self.publishes.used + self.small_frames_held + self.waiting_frames_held + self.deferred
        if held <= self._held_if_ample or account.is_admitted:
            return READ_BYTES
        held += self.first_frames.used + self.later_frames.used
        return min(max((self.limits.publishes - held) // 2, READ_BYTES_MIN), READ_BYTES)

    def stalled(self, now: float) -> list[Account]:
        """Return the connections whose large frame has stalled while the frames of others wait."""
        return self.first_frames.stalled(now) + self.later_frames.stalled(now)
