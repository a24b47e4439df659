"""The interface of a metadata store: small versioned values at slash-separated paths.

Reads use a tree in memory. A commit is checked against the tree and applied to it at once, so that later reads and
commits see it. It is then made durable off the event loop. Its effects may be communicated to others only after it is
reported as durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import BadVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.histogram import Histogram

    OnDurable = Callable[[StorageError | None], None]
    """Called with None when the commit is durable, or with the error if it failed."""

_HEAD = Struct("<qq")
"""Version and time of the last change, before the value."""

ABSENT = -1
"""Expected version of a path that must not exist."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stored value; ``version`` is 0 when the path is created and increases by one with each change."""

    value: bytes
    version: int
    modified_ms: int
    """Time of the last change, in milliseconds since the epoch."""


def packed(stored: Versioned) -> bytes:
    """Return the form in which a store keeps a value in memory."""
    return _HEAD.pack(stored.version, stored.modified_ms) + stored.value


def unpacked(data: bytes) -> Versioned:
    """Return a packed value, which is copied."""
    return Versioned(packed_value(data), packed_version(data), _HEAD.unpack_from(data)[1])


def packed_value(data: bytes) -> bytes:
    """Return the value alone of a packed value; it is copied."""
    return data[_HEAD.size :]


def packed_version(data: bytes) -> int:
    """Return the version of a packed value."""
    return int(_HEAD.unpack_from(data)[0])


@dataclass(frozen=True, slots=True)
class Put:
    """A write; ``expected_version`` is the version to replace, ABSENT to create, None for any state."""

    path: str
    value: bytes
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """The deletion of one path, not of paths below it. With None as ``expected_version``, the path may be absent."""

    path: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one path in a commit."""

    path: str
    after: Versioned | None
    """None: the path was removed."""
    replaced: bytes | None = field(repr=False)
    """What was there before, packed; None: the path was created."""

    @property
    def before(self) -> Versioned | None:
        """What was there before; None: the path was created."""
        return None if self.replaced is None else unpacked(self.replaced)


class MetadataStore(Protocol):
    """Used on the event loop's thread, which also runs all callbacks. No method waits for a disk unless it says so.

    A path starts with a slash and does not end with one. A path need not have a stored parent.
    """

    commit_times: Histogram
    """Durations of writing and syncing a group of changes; empty if nothing is synced."""

    def get(self, path: str) -> Versioned | None:
        """Return the value at ``path``, None if it is absent; includes values that are not durable yet."""
        ...

    def children(self, path: str) -> list[str]:
        """Return the names one level below ``path``, sorted, including names that only have values further below."""
        ...

    def each_child(self, path: str) -> Iterator[str]:
        """Yield the names of ``children`` in no particular order; anything may be stored between two of them.

        No name is yielded twice. Names that come or go meanwhile are yielded or not.
        """
        ...

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield all paths below ``path`` and their values, sorted; nothing may be stored meanwhile."""
        ...

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """Apply all operations in one transaction; return the versions of the written values, in order.

        Raises BadVersionError, without any change, if a version is not the expected one. ``on_durable`` is called once,
        in the order of all commits and barriers. After an error, the store is in the state before this commit, and all
        commits made before that report fail with an error as well.
        """
        ...

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` when all earlier commits are durable; immediately if they are.

        It is called with the error of a pending commit that failed.
        """
        ...

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` with each change of ``prefix`` or a path below it.

        It is called when the change is durable, before ``on_durable``, and must not raise. Returns the function that
        ends the watch.
        """
        ...

    def close(self) -> None:
        """Write pending commits, and release the store; it cannot be used afterwards."""
        ...


def check_version(path: str, current: int | None, expected: int | None) -> None:
    """Raise BadVersionError with the path unless ``current`` (None: absent) is the expected version."""
    found = ABSENT if current is None else current
    if expected is not None and found != expected:
        message = f"version of {path} is {found}, expected {expected}"
        raise BadVersionError(message)


class Watchers:
    """The registered watches."""

    def __init__(self) -> None:
        """Create an empty set."""
        self._watches: dict[object, tuple[str, Callable[[Change], None]]] = {}

    def add(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` with changes at ``prefix`` and below, until the returned function is called."""
        key = object()
        self._watches[key] = (prefix.rstrip("/"), callback)

        def end() -> None:
            self._watches.pop(key, None)

        return end

    def notify(self, change: Change) -> None:
        """Call all watches whose prefix covers the path, in the order of their registration."""
        path = change.path
        for prefix, callback in tuple(self._watches.values()):
            if path == prefix or path.startswith(f"{prefix}/"):
                callback(change)
