"""All values of a metadata store in memory, in a compact form. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from magnetar.metadata.store import (
    Change,
    Put,
    Versioned,
    check_version,
    packed,
    packed_value,
    packed_version,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from magnetar.metadata.store import Delete


class MetadataTree:
    """Values by path. The paths are also kept sorted, so that the paths below a path are adjacent."""

    def __init__(self) -> None:
        """Create an empty tree."""
        self._values: dict[str, bytes] = {}
        self._paths: list[str] = []

    def load(self, rows: Iterable[tuple[str, bytes, int, int]]) -> None:
        """Load all stored values with path, version and time, in any order."""
        self._values = {
            path: packed(Versioned(value, version, modified_ms)) for path, value, version, modified_ms in rows
        }
        self._paths = sorted(self._values)

    def copy(self) -> MetadataTree:
        """Return a tree with the same values."""
        copied = MetadataTree()
        copied._values, copied._paths = self._values.copy(), self._paths.copy()
        return copied

    def get(self, path: str) -> Versioned | None:
        """Return the value at ``path``, None if it is absent."""
        found = self._values.get(path)
        return None if found is None else unpacked(found)

    def children(self, path: str) -> list[str]:
        """Return the names one level below ``path``, sorted, including names that only have values further below."""
        return sorted(self.each_child(path))

    def each_child(self, path: str) -> Iterator[str]:
        """Yield the names of ``children`` in no particular order; the tree may change between two of them.

        No name is yielded twice. Names that come or go meanwhile are yielded or not.
        """
        parent, paths = path.rstrip("/") + "/", self._paths
        next_path, yielded = parent, set[str]()
        while (at := bisect_left(paths, next_path)) < len(paths) and paths[at].startswith(parent):
            found = paths[at]
            name = found[len(parent) :].partition("/")[0]
            below = f"{parent}{name}/"
            if len(found) < len(below) and not (at + 1 < len(paths) and paths[at + 1].startswith(below)):
                next_path = f"{found}\0"  # other names may lie before "name/", for instance "name-1"
            else:
                # All paths below a name lie between "name/" and "name0": "0" is the character after "/".
                next_path = f"{parent}{name}0"
            if name not in yielded:
                yielded.add(name)
                yield name

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the paths below ``path`` and their values, sorted; the tree must not change meanwhile."""
        parent, paths = f"{path}/", self._paths
        for at in range(bisect_left(paths, parent), len(paths)):
            found = paths[at]
            if not found.startswith(parent):
                break
            yield found, packed_value(self._values[found])

    def apply(self, operations: Sequence[Put | Delete], modified_ms: int) -> list[Change]:
        """Apply all operations, or none: raises BadVersionError. Returns the changes, in order."""
        changes: list[Change] = []
        try:
            for operation in operations:
                replaced = self._values.get(operation.path)
                version = None if replaced is None else packed_version(replaced)
                check_version(operation.path, version, operation.expected_version)
                after = None
                if isinstance(operation, Put):
                    after = Versioned(operation.value, 0 if version is None else version + 1, modified_ms)
                changes.append(Change(operation.path, after, replaced))
                self._set(operation.path, None if after is None else packed(after))
        except BaseException:
            self.revert(changes)
            raise
        return changes

    def revert(self, changes: Sequence[Change]) -> None:
        """Revert changes, the last one first."""
        for change in reversed(changes):
            self._set(change.path, change.replaced)

    def set(self, path: str, stored: Versioned | None) -> None:
        """Set or remove a value without a new version."""
        self._set(path, None if stored is None else packed(stored))

    def _set(self, path: str, value: bytes | None) -> None:
        if value is not None:
            if path not in self._values:
                self._paths.insert(bisect_left(self._paths, path), path)
            self._values[path] = value
        elif self._values.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)]
