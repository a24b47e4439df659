"""Runs of the entries that a task has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from magnetar.jobs.audit.tables import BUCKET, RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


class Read(NamedTuple):
    """Entries of one log, in its order; arrays have one element for each entry."""

    topic: str
    cluster: str
    names: Sequence[str]
    """Names of origins and values of ``targets``, to which the indexes refer."""
    origins: Longs
    """Indexes in ``names``."""
    origin_ledgers: Longs
    origin_entries: Longs
    ledgers: Longs
    entries: Longs
    contents: Longs
    """Digests of the contents."""
    targets: Longs
    """Indexes in ``names``."""
    link_starts: NDArray[np.bool_]


def runs_of(read: Read) -> pa.RecordBatch:
    """Return the runs of the entries, as rows of RUNS."""
    count = len(read.entries)
    is_first = np.ones(count, np.bool_)
    for same in (read.origins, read.origin_ledgers, read.ledgers, read.targets):
        is_first[1:] &= same[1:] == same[:-1]
    for consecutive in (read.origin_entries, read.entries):
        is_first[1:] &= consecutive[1:] == consecutive[:-1] + 1
    is_first[1:] = ~is_first[1:]
    is_first |= read.link_starts | (read.origin_entries % BUCKET == 0)
    starts = np.flatnonzero(is_first)
    digests = digests_of(read.contents, read.origin_ledgers, read.origin_entries)
    names = pa.array(read.names, pa.string())
    columns = [
        pa.repeat(read.topic, len(starts)),
        pa.repeat(read.cluster, len(starts)),
        names.take(pa.array(read.origins[starts])),
        pa.array(read.origin_ledgers[starts]),
        pa.array(read.origin_entries[starts]),
        pa.array(read.ledgers[starts]),
        pa.array(read.entries[starts]),
        pa.array(np.diff(starts, append=count)),
        pa.array(np.bitwise_xor.reduceat(digests, starts) if count else digests),
        names.take(pa.array(read.targets[starts])),
        pa.array(read.link_starts[starts]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RUNS)


def digests_of(contents: Longs, origin_ledgers: Longs, origin_entries: Longs) -> Longs:
    """Return digests of contents at their origin positions, so that the XOR of a bucket shows exchanged contents."""
    with np.errstate(over="ignore"):
        places = _mixed(origin_ledgers.view(np.uint64) * _ODD + origin_entries.view(np.uint64))
        mixed: Longs = _mixed(contents.view(np.uint64) ^ places).view(np.int64)
    return mixed


_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a permutation of 64-bit numbers: the finalizer of SplitMix64."""
    values = (values + _ODD).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return values ^ (values >> np.uint64(31))
