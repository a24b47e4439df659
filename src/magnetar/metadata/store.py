"""The interface of a metadata store: small versioned values at slash-separated paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import BadVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class MetadataStore(Protocol):
    """Synchronous, and durable when a call returns. Used from one thread.

    A path starts with a slash and does not end with one. A path need not have a stored parent.
    """

    def get(self, path: str) -> Versioned | None:
        """What is stored at ``path``, None if nothing is."""
        ...

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> int:
        """Store and return the new version; raises BadVersionError and changes nothing if another was expected."""
        ...

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """Store all in one transaction and return their versions; raises BadVersionError and changes nothing."""
        ...

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """Remove one path, not those below it; raises NotFoundError or BadVersionError."""
        ...

    def children(self, path: str) -> list[str]:
        """Names one level below ``path``, sorted; also of those that only have something stored further below."""
        ...

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback`` with each path, ``prefix`` or below it, whose value was stored or removed.

        It is called after the change is durable, on the thread that made it, and must not raise.
        Returns the function that ends the watch.
        """
        ...

    def close(self) -> None:
        """Release the store; it cannot be used afterwards."""
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
        self._watches: dict[object, tuple[str, Callable[[str], None]]] = {}

    def add(self, prefix: str, callback: Callable[[str], None]) -> Callable[[], None]:
        """Tell ``callback`` of changes at ``prefix`` and below, until the returned function is called."""
        key = object()
        self._watches[key] = (prefix.rstrip("/"), callback)

        def end() -> None:
            self._watches.pop(key, None)

        return end

    def notify(self, path: str) -> None:
        """Tell all whose prefix covers ``path``, in the order in which they came."""
        for prefix, callback in tuple(self._watches.values()):
            if path == prefix or path.startswith(f"{prefix}/"):
                callback(path)
