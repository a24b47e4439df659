"""Tables of a translation."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

SOURCES_MAX: Final = 100
"""Equal entries of the source that are candidates for an entry of the target. Of more, none is listed."""


class Match(StrEnum):
    """What is known of an entry in the other cluster."""

    MAPPED = "mapped"
    """Each of the clusters has one such entry."""
    AMBIGUOUS = "ambiguous"
    """A cluster has several equal entries, so positions do not correspond one to one."""
    MISSING_IN_TARGET = "missing in target"
    MISSING_IN_SOURCE = "missing in source"
    DELETED_IN_SOURCE = "deleted in source"
    """The entry was replicated from the source, before all entries that the source still stores."""


class Verdict(StrEnum):
    """Kinds of rows about the acknowledgement state of a subscription in the target."""

    ACKNOWLEDGED = "acknowledged"
    """Entries ``first`` to ``last`` are acknowledged."""
    PARTLY = "partly acknowledged"
    """Of the ``count`` messages in the batch ``first``, those in ``remaining`` are not acknowledged."""
    UNACKNOWLEDGED = "unacknowledged"
    """``count`` entries from ``first`` on are not acknowledged as a whole; acknowledged ones may be among them."""
    UNDECIDED = "undecided"
    """The equal entries of the source differ in their acknowledgements, so ``first`` is not acknowledged."""
    AHEAD = "ahead"
    """The subscription of the target has acknowledged ``count`` entries, ``first`` among them, and the source has
    not."""
    ONLY_IN_SOURCE = "only in source"
    """``count`` entries are acknowledged that the target does not have; positions are null."""


_MESSAGE: Final = (
    ("producer_name", pa.string()),
    ("sequence_id", pa.int64()),
    ("publish_time", pa.int64()),  # milliseconds since 1970
    ("messages", pa.int32()),
)

IDENTITIES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("is_target", pa.bool_()),
        ("ledger", pa.int64()),
        ("entry", pa.int64()),
        ("high", pa.int64()),  # 128 bits that identify the content and the topic
        ("low", pa.int64()),
        ("from_source", pa.bool_()),  # the source published the entry
        *_MESSAGE,
    ]
)
"""The entries of both clusters."""

MATCHES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("match", pa.string()),
        ("ledger", pa.int64()),  # in the target; null if it does not have the entry
        ("entry", pa.int64()),
        ("source_ledgers", pa.list_(pa.int64())),  # the equal entries of the source, in order
        ("source_entries", pa.list_(pa.int64())),
        ("from_source", pa.bool_()),
        *_MESSAGE,
    ]
)
"""A row for each entry of the target, and for each one of the source that the target does not have."""

VERDICTS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("subscription", pa.string()),
        ("verdict", pa.string()),
        ("ledger", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("count", pa.int64()),
        ("remaining", pa.binary()),
    ]
)
"""The acknowledgement states in the target, in parts."""
