"""The interface of a metadata store: small versioned values at slash-separated paths.

Reads are answered from a tree in memory. A commit is checked against the tree and applied to it at once, so that reads
and commits that follow see it, and is then made durable off the event loop. What it means may be told to others only
once it is reported as durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import BadVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.histogram import Histogram

    OnDurable = Callable[[StorageError | None], None]
    """Told None once durable, or why it never will be."""

ABSENT = -1
"""The version to expect of a path that must not exist yet."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stored value; ``version`` is 0 when the path is created and one more with every change of it."""

    value: bytes
    version: int
    modified_ms: int
    """Milliseconds since the epoch of the last change."""


@dataclass(frozen=True, slots=True)
class Put:
    """One write; ``expected_version`` is the version it replaces, ABSENT to create, None for whatever is there."""

    path: str
    value: bytes
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """The removal of one path, not of those below it; None as ``expected_version`` also takes a path that is absent."""

    path: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one path in a commit."""

    path: str
    before: Versioned | None
    """None: the path was created."""
    after: Versioned | None
    """None: the path was removed."""


class MetadataStore(Protocol):
    """Used on the event loop's thread, where it also reports; nothing here waits for a disk.

    A path starts with a slash and does not end with one. A path need not have a stored parent.
    """

    commit_times: Histogram
    """Durations of writing and syncing a group of changes; empty if nothing is synced."""

    def get(self, path: str) -> Versioned | None:
        """What is stored at ``path``, None if nothing is; also what is not durable yet."""
        ...

    def children(self, path: str) -> list[str]:
        """Names one level below ``path``, sorted; also of those that only have something stored further below."""
        ...

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """Carry out all operations in one transaction, and return the versions of what was put, in order.

        Raises BadVersionError, and changes nothing, where another version was expected. ``on_durable`` is called once,
        in the order of all commits and barriers. After an error everything is as it was before the commit, as is what
        was committed before that report: each of these commits reports an error, too.
        """
        ...

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> int:
        """Commit one value, durable on return, and return its version; blocks the loop until it is."""
        ...

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """Commit values in one transaction, durable on return; blocks the loop until they are."""
        ...

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """Commit one removal, durable on return; raises NotFoundError; blocks the loop until it is."""
        ...

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` when all that was committed before is durable; at once if that is so.

        It gets the error of a commit that was pending and failed.
        """
        ...

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` with each change of ``prefix`` or a path below it.

        It is called when the change is durable, before that is reported, and must not raise. Returns the function that
        ends the watch.
        """
        ...

    def close(self) -> None:
        """Write what is pending, and release the store; it cannot be used afterwards."""
        ...


def check_version(path: str, current: int | None, expected: int | None) -> None:
    """Raise BadVersionError, naming the path, unless ``current`` (None: absent) is what was expected."""
    found = ABSENT if current is None else current
    if expected is not None and found != expected:
        message = f"version of {path} is {found}, expected {expected}"
        raise BadVersionError(message)


class Watchers:
    """Who wants to hear about which paths."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._watches: dict[object, tuple[str, Callable[[Change], None]]] = {}

    def add(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Tell ``callback`` of changes at ``prefix`` and below, until the returned function is called."""
        key = object()
        self._watches[key] = (prefix.rstrip("/"), callback)

        def end() -> None:
            self._watches.pop(key, None)

        return end

    def notify(self, change: Change) -> None:
        """Tell all whose prefix covers the path, in the order in which they came."""
        path = change.path
        for prefix, callback in tuple(self._watches.values()):
            if path == prefix or path.startswith(f"{prefix}/"):
                callback(change)
