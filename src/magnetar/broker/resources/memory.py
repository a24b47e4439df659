"""The memory that a broker holds for its clients: how much of each kind there is, and who has to wait. Pure.

Each kind has a share with a limit in bytes. A share that drains by itself, such as publishes in flight, is divided by
one rule: a connection goes on while it holds no more than what is still free. If n connections take all they can get,
the share has n + 1 equal parts: each connection holds one, and one is free for others. So no flood takes the whole
share, and no list of connections is needed. A connection that holds at most SMALL_BYTES is never held up. What a read
of a socket brings is only known afterwards, so reads become smaller as memory gets short.

A large frame is different: it drains only if its client sends the rest. So it is admitted as a whole, and connections
whose frames wait are not read. A client that stops in the middle of a frame while others wait is dropped.
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
"""Bytes of a frame above which it has to be admitted; SMALL_BYTES while unfinished smaller frames hold much."""

READ_BYTES = 256 * 1024
"""Bytes that one read of a socket may bring."""

READ_BYTES_MIN = 16 * 1024
"""The same while the memory for what arrives is used up."""

STALL_S = 1.0
"""Seconds in which a client that others wait for has to send STALL_BYTES."""


class LargeFrames(Share):
    """Large frames, each from its admission until what it publishes is durable; ``used`` counts their full sizes.

    Here ``used`` never exceeds ``limit``.
    """

    __slots__ = ("_newest_is_next", "_unfinished", "_waiting")

    def __init__(self, limit: int) -> None:
        """Admit frames of ``limit`` bytes in all, which must not be less than the largest frame."""
        super().__init__(limit)
        self._unfinished: dict[Account, None] = {}
        """Connections whose frame was admitted and is unfinished, in the order of admission."""
        self._waiting: dict[Account, None] = {}
        """Connections whose frame waits, in order."""
        self._newest_is_next = True
        """Whether the newest of them is admitted next, or the oldest: in turn. A client that comes behind many which do
        not finish their frames does not wait until they all had theirs."""

    @property
    def in_flight(self) -> int:
        """Bytes of frames that are finished, and not durable yet."""
        return self.used - sum([account.frame_size for account in self._unfinished])

    def admits(self, account: Account, size: int) -> bool:
        """Admit a frame, or let it wait; return whether it was admitted."""
        if not self._waiting and self.used + size <= self.limit:
            self._unfinished[account] = None
            self.used += size
            return True
        self._waiting[account] = None
        return False

    def has_admitted(self, account: Account) -> bool:
        """Whether the frame of ``account`` was admitted and is unfinished."""
        return account in self._unfinished

    def end(self, account: Account) -> None:
        """Forget that the frame of ``account`` is unfinished, or waits."""
        self._unfinished.pop(account, None)
        self._waiting.pop(account, None)

    def give_back(self, size: int) -> None:
        """Count ``size`` bytes out, and admit the frames that fit then."""
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
        """Return the connections that others wait for, and that have not sent STALL_BYTES in the last STALL_S.

        To be asked every now and then: a connection is timed from the first look at it.
        """
        return [account for account in self._unfinished if account.has_stalled(now)] if self._waiting else []


def _resume_nobody() -> None:
    """Do nothing: the connection is gone."""


class Account:
    """What one connection holds.

    The first large frame of a connection, and each one until it has finished one, is admitted to a share of its own. So
    clients that begin large frames and stop do not hold up those that are known to finish theirs.
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
        """A connection that holds nothing; ``resume`` is called when a large frame that waited is admitted."""
        self._budget = budget
        self._publishes = budget.publishes
        self.unsent = Unsent(budget.sending)
        self._frames = budget.first_frames
        """Where its newest large frame was admitted, or waits."""
        self._resume = resume
        self._publishing = 0
        """Bytes of its publishes in flight."""
        self._large = 0
        """Bytes of its large frames: at most what is in flight, and the one that was admitted and is unfinished."""
        self._first_large = 0
        """Those of them that were admitted before it had finished one."""
        self._small = 0
        """Bytes of its publishes in flight that are counted in the share of publishes: those beyond ``_large``.

        ``_count_small`` follows each change of ``_large``, so all publishes in flight are counted while that is 0.
        """
        self._has_finished = False
        """Whether it has finished a large frame."""
        self._is_large = False
        """Whether its unfinished frame has to be admitted, or was."""
        self._small_held = 0
        """Bytes that have arrived of its unfinished frame, if that needs no admission."""
        self._waiting_held = 0
        """The same, if it waits for its admission."""
        self._deferred = 0
        """Bytes of what was read and waits for a later turn of the loop."""
        self._looked_at: float | None = None
        """When progress was last found; None if nobody has looked since the frame was admitted."""
        self._missing_then = 0
        """Bytes that the frame missed then."""
        self.frame_held = 0
        """Bytes that have arrived of its unfinished frame."""
        self.frame_missing = 0
        """Bytes that have not."""
        self.is_read = True
        """Whether its socket is read: a client that is held up does not stall."""

    @property
    def frame_size(self) -> int:
        """Bytes of its unfinished frame; 0 if it has none."""
        return self.frame_held + self.frame_missing

    # -- publishes ----------------------------------------------------------------------------------------------

    def publish(self, size: int) -> bool:
        """Count publishes of ``size`` bytes in; return whether the connection may go on."""
        self._publishing += size
        if self._large:
            self._count_small()
        else:
            self._small += size
            self._publishes.used += size
        return self._small <= SMALL_BYTES or self._small <= self._publishes.room

    def published(self, size: int) -> None:
        """Count publishes of ``size`` bytes out, durable or not."""
        self._publishing -= size
        if self._large:
            self._settle()
        else:
            self._small -= size
            self._publishes.used -= size

    @property
    def may_publish_again(self) -> bool:
        """Whether a connection that was held up may go on: it holds at most half of what it may."""
        return self._small <= self._publishes.room // 2

    # -- the frame that is arriving -----------------------------------------------------------------------------

    def arrived(self, held: int, missing: int) -> bool:
        """Note an unfinished frame after a read, 0 and 0 for none; return whether the connection may be read on.

        If not, ``resume`` is called as soon as it may.
        """
        self._budget.frames_held += held - self.frame_held
        was_large = self._is_large
        # A frame that goes on misses less each time. One that follows a large frame misses more than that did.
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
        """Whether its unfinished frame was admitted, and so is counted as a whole."""
        return self._is_large and self._frames.has_admitted(self)

    def admitted(self) -> None:
        """Go on with the large frame that waited."""
        self._begin_large()
        self._note_held()
        self._resume()

    def has_stalled(self, now: float) -> bool:
        """Whether the client could send, and has not sent STALL_BYTES in the last STALL_S."""
        if self._looked_at is not None and self.is_read:
            if now - self._looked_at < STALL_S:
                return False
            if self._missing_then - self.frame_missing < STALL_BYTES:
                return True
        self._looked_at, self._missing_then = now, self.frame_missing
        return False

    def close(self) -> None:
        """Forget the unfinished frame of a connection that is gone; publishes in flight still count."""
        self._budget.frames_held -= self.frame_held
        self.frame_held = self.frame_missing = 0
        self._is_large = False
        self._note_held()
        self.handled()
        self._frames.end(self)
        self._settle()
        self._resume = _resume_nobody  # no reference back to the session, which is freed at once then
        self.unsent.close()

    def defer(self, size: int) -> None:
        """Count ``size`` bytes in that were read and wait for a later turn of the loop."""
        self._deferred += size
        self._budget.deferred += size

    def handled(self) -> None:
        """Count out what waited for a later turn of the loop: all of it is handled."""
        self._budget.deferred -= self._deferred
        self._deferred = 0

    def _note_held(self) -> None:
        """Count what has arrived of an unfinished frame that was not admitted."""
        small = 0 if self._is_large else self.frame_held
        waiting = self.frame_held if self._is_large and not self.is_admitted else 0
        self._budget.small_frames_held += small - self._small_held
        self._budget.waiting_frames_held += waiting - self._waiting_held
        self._small_held, self._waiting_held = small, waiting

    def _ask(self) -> bool:
        """Ask for the admission of the large frame that has begun; return whether it was admitted."""
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
        """Count out the large frames that are neither in flight nor unfinished."""
        if not self._large:
            return
        unfinished = self.frame_size if self._frames.has_admitted(self) else 0
        settled = self._large - self._publishing - unfinished
        if settled > 0:
            first = min(settled, self._first_large)  # those came before the others
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
        """Hold nothing. Half of what is for publishes is for large frames; the largest must fit into a quarter."""
        self.limits = limits
        quarter = limits.publishes // 4
        self.publishes = Share(limits.publishes - 2 * quarter)
        self._held_if_ample = self.publishes.limit - 2 * READ_BYTES
        """Bytes that may be held beside large frames, however much these hold, while reads are of full size."""
        self.first_frames = LargeFrames(quarter)
        self.later_frames = LargeFrames(quarter)
        self.frames_held = 0
        """Bytes that have arrived of unfinished frames, large and small."""
        self.small_frames_held = 0
        """Those of the frames that need no admission."""
        self.waiting_frames_held = 0
        """Those of the frames that wait for their admission."""
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
        """Bytes of all shares but the caches."""
        rest = self.bodies.used + self.answers.used
        arriving = self.publishes_in_flight + self.frames_held + self.deferred
        return arriving + self.reads.used + self.sending.used + rest

    @property
    def large_frame_bytes(self) -> int:
        """Bytes above which a frame has to be admitted now."""
        is_short = self.small_frames_held > self.first_frames.limit
        return SMALL_BYTES if is_short else LARGE_FRAME_BYTES

    def read_size(self, account: Account) -> int:
        """Return how many bytes the next read of a connection's socket may bring: at most half of what is free."""
        held = self.publishes.used + self.small_frames_held + self.waiting_frames_held + self.deferred
        if held <= self._held_if_ample or account.is_admitted:
            return READ_BYTES
        held += self.first_frames.used + self.later_frames.used
        return min(max((self.limits.publishes - held) // 2, READ_BYTES_MIN), READ_BYTES)

    def stalled(self, now: float) -> list[Account]:
        """Return the connections in whose large frame nothing arrives while the frames of others wait."""
        return self.first_frames.stalled(now) + self.later_frames.stalled(now)
