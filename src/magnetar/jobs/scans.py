"""The directory of a job, with which it continues after an interruption, and reads only new entries.

``scan-<number>/`` belongs to one run of the job. Its ``plan.json`` states what it reads, ``part-<number>`` are the rows
that it has read, as Parquet, and ``done`` marks its end. Later runs read from the ends of the earlier ones.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import Position
from magnetar.jobs.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    Ends = dict[str, dict[str, Position]]

_VERSION = 1
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

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a file."""
        return {
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
        return cls(_positions(data["ends"]), _positions(data["delivered"]), tasks)


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


class Records:
    """The directory."""

    def __init__(self, directory: Path, job: str, selection: Mapping[str, Sequence[str]]) -> None:
        """Open or create the directory; raises ConfigurationError if it belongs to another job, or other clusters.

        ``selection`` are the clusters and topics of the job, in any order.
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
            message = f"--state: {directory} belongs to other clusters or topics\nhint: name another directory"
            raise ConfigurationError(message)
        self.scans = [_read(found) for found in sorted(directory.glob("scan-*")) if (found / "plan.json").exists()]

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
        directory = self._directory / f"scan-{len(self.scans) + 1:05}"
        directory.mkdir(exist_ok=True)
        _write(directory / "plan.json", json.dumps(plan.to_json()))
        self.scans.append(Scan(directory, plan))
        return self.scans[-1]

    def parts(self) -> Iterable[Path]:
        """Return the complete parts of all runs."""
        return [path.parent for scan in self.scans for path in sorted(scan.directory.glob(f"part-*/{_SUCCESS}"))]


def _read(directory: Path) -> Scan:
    return Scan(directory, Plan.from_json(json.loads((directory / "plan.json").read_text())))


def _write(path: Path, text: str) -> None:
    """Write a file as a whole."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)  # noqa: PTH105 - atomic on every system
