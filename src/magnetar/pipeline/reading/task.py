"""The interface of a reader's task to its source clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from random import Random

    from magnetar.pipeline.connections.flow import Budget
    from magnetar.pipeline.rows import Carried


class Task(Protocol):
    """The interface of a task to its source clusters."""

    loop: asyncio.AbstractEventLoop
    rng: Random
    budget: Budget
    target: str
    lease: int
    pipeline: str
    buckets: frozenset[int]
    """The buckets of the links to the target that the task carries (`magnetar.wire.links.link_bucket`)."""
    target_state: str
    """The state of the target according to its newest report of losses; empty without one."""
    custody: str
    """How the target takes entries of other clusters that are in the custody of a source; empty: it does not."""

    @property
    def carrying(self) -> bool:
        """Return whether links may be attached: the slot has begun and the target is connected."""
        ...

    @property
    def succeeded(self) -> bool:
        """Return whether the slot is over, so that lost links belong to the successor."""
        ...

    def next_number(self) -> int:
        """Return a number for an attachment, unique in the task."""
        ...

    def carry(self, carried: Carried) -> None:
        """Queue an entry for the writer."""
        ...

    def forget(self, number: int) -> None:
        """Stop sending entries of an attachment that has ended."""
        ...

    def poll_namespaces(self, source: str) -> None:
        """Poll the namespaces that are replicated from a source, whose broker does not report them."""
        ...
