"""The origin stamps of a run of entries, made together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c

from magnetar.wire.entries.entry import (
    CHECKSUMMED_START,
    MAGIC,
    METADATA_START,
    SCHEMA_VERSION_KEY,
    pack_size,
    read_head,
)
from magnetar.wire.entries.origin import LINK_PLACE_KEY, SOURCE_POSITION, place_of, replicated_from
from magnetar.wire.entries.plain_metadata import is_plain_with_version, messages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.wire.entries.origin import Origin


_PLACE = b"\x22%%c\x0a%c%b\x12%%c%%b%b%%c%%b" % (len(SOURCE_POSITION), SOURCE_POSITION.encode(), LINK_PLACE_KEY)
"""The fields of ``place_of``: the lengths of the pair and of its value, the value, the length of the place, the place.
"""
_PAIR_LENGTH = len(SOURCE_POSITION) + 4
"""The length of the pair without its value."""
_ONE_BYTE_LENGTH_MAX = 127
_SCHEMA_VERSION = SCHEMA_VERSION_KEY + b"%c%b"


def stamp_plain(entries: Sequence[bytes], first: Origin, schema_version: bytes = b"") -> tuple[list[bytes], int] | None:
    """Return ``stamp`` of each entry of a run that starts at ``first``, and the number of messages of all of them.

    Each entry follows the one before in the origin. Returns None if one is not intact, does not have plain metadata, or
    has a schema while ``schema_version`` is empty, or the other way round.

    Runs once per replicated entry, so it does in one loop what ``stamp`` does in several functions.
    """
    if len(schema_version) > _ONE_BYTE_LENGTH_MAX:
        return None
    stamped, messages, crc32c = [], 0, google_crc32c.value
    version = _SCHEMA_VERSION % (len(schema_version), schema_version) if schema_version else b""
    (ledger_id, entry_id), place = first.position, place_of(first)
    opening, before = replicated_from(first.cluster), b""
    for entry in entries:
        if len(entry) < METADATA_START:
            return None
        magic, checksum, size = read_head(entry)
        end = METADATA_START + size
        if magic != MAGIC or end > len(entry) or crc32c(entry[CHECKSUMMED_START:]) != checksum:
            return None
        plain = is_plain_with_version(entry, METADATA_START, end)
        if plain is None:
            return None
        batch, own_version = plain.groups()
        if own_version is None:
            metadata = b"" if version else entry[METADATA_START:end]
        else:
            version_start, version_end = plain.span(2)
            metadata = entry[METADATA_START:version_start] + version + entry[version_end:end] if version else b""
        if not metadata:
            return None
        messages += messages_of(batch)
        position = b"%d:%d" % (ledger_id, entry_id)
        if before:
            place = _PLACE % (len(position) + _PAIR_LENGTH, len(position), position, len(before), before)
        size = len(metadata) + len(opening) + len(place)
        sized, payload = b"".join((pack_size(size), metadata, opening, place)), entry[end:]
        stamped.append(b"".join((MAGIC, pack_size(google_crc32c.extend(crc32c(sized), payload)), sized, payload)))
        before, entry_id = position, entry_id + 1
    return stamped, messages
