"""The directory of a job, with which it continues after an interruption, and reads only new entries.

``scan-<number>/`` belongs to one run of the job. Its ``plan.json`` states what it reads, ``part-<number>`` are the rows
that it has read, as Parquet, and ``done`` marks its end. Later runs read from the ends of the earlier ones. After its
end, a run can join all scans in a new one. The plan of that one, written last, makes it valid, and the others are
removed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.durable import write_again
from magnetar.base.errors import ConfigurationError
from magnetar.base.lock import DirectoryLock
from magnetar.base.position import Position
from magnetar.base.real import SystemFiles
from magnetar.jobs.files import sync
from magnetar.jobs.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    Ends = dict[str, dict[str, Position]]

_VERSION = 2
_PLAN = "plan.json"
_SUCCESS = "_SUCCESS"
"""File that Spark writes when all files of a table are complete."""


@dataclass(slots=True)
class Plan:
    """What one run reads."""

    ends: Ends = field(default_factory=dict)
    """By cluster and topic, the newest entry that is read."""
    delivered: dict[str, dict[str, dict[str, Position]]] = field(default_factory=dict)
    """Of an audit: by cluster and topic, up to which position the links had delivered to each target before the ends
    were taken."""
    tasks: list[list[Piece]] = field(default_factory=list)
    is_joined: bool = False
    """Whether the scan has all that is kept of earlier ones."""

    @property
    def entries(self) -> int:
        """Number of entries that the tasks read."""
        return sum(piece.entries for task in self.tasks for piece in task)

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a file."""
        return {
            "joined": self.is_joined,
            "ends": _texts(self.ends),
            "delivered": _texts(self.delivered),
            "tasks": [
                [[*piece[:2], str(piece.start), str(piece.end), *piece[4:]] for piece in task] for task in self.tasks
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Plan:
        """Return the plan in a file."""
        tasks = [
            [
                Piece(cluster, topic, Position.parse(start), Position.parse(end), entries, size)
                for cluster, topic, start, end, entries, size in task
            ]
            for task in data["tasks"]
        ]
        return cls(_positions(data["ends"]), _positions(data["delivered"]), tasks, data["joined"])


def _texts(value: Any) -> Any:  # noqa: ANN401 - JSON
    return {key: _texts(each) for key, each in value.items()} if isinstance(value, dict) else str(value)


def _positions(value: Any) -> Any:  # noqa: ANN401 - JSON
    return {key: _positions(each) for key, each in value.items()} if isinstance(value, dict) else Position.parse(value)


class Scan:
    """The files of one run."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        """Use the files in ``directory``."""
        self.directory = directory
        self.plan = plan

    def part(self, number: int) -> Path:
        """Return the place of the rows of a part."""
        return self.directory / f"part-{number:05}"

    def has(self, number: int) -> bool:
        """Return whether a part is complete."""
        return (self.part(number) / _SUCCESS).exists()

    @property
    def is_done(self) -> bool:
        """Whether the run is complete."""
        return (self.directory / "done").exists()

    def finish(self) -> None:
        """Note that the run is complete."""
        _write(self.directory / "done", "")

    @property
    def number(self) -> int:
        """The number in the name of the directory."""
        return int(self.directory.name.partition("-")[2])


class Records:
    """The directory."""

    def __init__(self, directory: Path, job: str, selection: Mapping[str, Sequence[str]]) -> None:
        """Open or create the directory, and lock it.

        ``selection`` are the clusters and topics of the job, in any order.
        Raises ConfigurationError if it belongs to another job, or other clusters, and StorageError if another process
        uses it.
        """
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        wanted = {"version": _VERSION, **{name: sorted(values) for name, values in selection.items()}}
        path = directory / f"{job}.json"
        if not path.exists():
            if any(directory.iterdir()):
                message = f"--state: {directory} is neither empty nor the directory of an earlier {job}"
                raise ConfigurationError(message)
            _write(path, json.dumps(wanted))
        elif json.loads(path.read_text()) != wanted:
            message = (
                f"--state: {directory} belongs to other clusters or topics, or to another version"
                "\nhint: name another directory"
            )
            raise ConfigurationError(message)
        self._lock = DirectoryLock(directory)
        self.scans: list[Scan] = []
        for found in sorted(directory.glob("scan-*")):
            if (found / _PLAN).exists():
                self._add(_read(found))
            else:  # of a run that ended before its plan was complete
                shutil.rmtree(found)

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the directory."""
        self._lock.release()

    @property
    def unfinished(self) -> Scan | None:
        """The run that was interrupted, if there is one."""
        return self.scans[-1] if self.scans and not self.scans[-1].is_done else None

    @property
    def ends(self) -> Ends:
        """By cluster and topic, the newest entry that runs have read, or will read."""
        found: Ends = {}
        for scan in self.scans:
            for cluster, by_topic in scan.plan.ends.items():
                found.setdefault(cluster, {}).update(by_topic)
        return found

    def begin(self, plan: Plan) -> Scan:
        """Begin a run."""
        scan = self._next(plan)
        self._commit(scan)
        return scan

    def join(self, ends: Ends, write: Callable[[Scan], None]) -> None:
        """Replace all scans, which are complete, by one whose tables ``write`` writes."""
        scan = self._next(Plan(ends, is_joined=True))
        write(scan)
        scan.finish()
        for path in sorted(scan.directory.rglob("*"), reverse=True):
            sync(path)
        self._commit(scan)

    def _next(self, plan: Plan) -> Scan:
        number = self.scans[-1].number + 1 if self.scans else 1
        directory = self._directory / f"scan-{number:05}"
        directory.mkdir()
        return Scan(directory, plan)

    def _commit(self, scan: Scan) -> None:
        _write(scan.directory / _PLAN, json.dumps(scan.plan.to_json()))
        SystemFiles().sync_directory(self._directory)
        self._add(scan)

    def _add(self, scan: Scan) -> None:
        """Add a scan; remove those that it replaces."""
        if scan.plan.is_joined:
            for each in self.scans:
                shutil.rmtree(each.directory)
            self.scans.clear()
        self.scans.append(scan)

    def parts(self) -> Iterable[Path]:
        """Return the complete parts of all runs."""
        return [path.parent for scan in self.scans for path in sorted(scan.directory.glob(f"part-*/{_SUCCESS}"))]


def _read(directory: Path) -> Scan:
    return Scan(directory, Plan.from_json(json.loads((directory / _PLAN).read_text())))


def _write(path: Path, text: str) -> None:
    write_again(SystemFiles(), path, text.encode())
