"""The file in which the driver tells the planner of tasks how to divide the links; both run on the same machine."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Division:
    """The division of the links to each target in the next lease."""

    parallelism: int
    """Number of tasks."""
    traffic: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Bytes of each bucket by target, as far as known."""


def write_division(path: Path, division: Division) -> None:
    """Replace the file. Errors are ignored: the links are then divided as before."""
    new = path.with_suffix(".new")
    with suppress(OSError):
        new.write_text(json.dumps(asdict(division)), encoding="utf-8")
        new.replace(path)


def read_division(path: str, otherwise: int) -> Division:
    """Return the content of the file; if it is missing or damaged, ``otherwise`` tasks that divide links evenly."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        traffic = {str(target): _checked(each) for target, each in found["traffic"].items()}
        return Division(min(max(1, int(found["parallelism"])), LINK_BUCKETS), traffic)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return Division(otherwise)


def _checked(each: list[int]) -> list[int]:
    if len(each) != LINK_BUCKETS:
        raise ValueError
    return list(map(int, each))
