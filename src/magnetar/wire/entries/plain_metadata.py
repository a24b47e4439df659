"""Message metadata of the form that most messages have, known by a regular expression.

Every published entry's metadata has to be found readable, and every dispatched entry's to say how many messages it
holds; a regular expression finds out in a third of the time that protobuf takes to read the fields. What it knows is
plain: each field at most once and in the order of its number, as every client writes them, and none that concerns
dispatch but the number of messages. Metadata of any other form is for protobuf to read.
"""

from __future__ import annotations

import re

from magnetar.base.limits import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_SIZE_MIN
from magnetar.wire import varint

_LENGTH_MAX = 63
"""Longer names and keys are left to protobuf: each length is an alternative of its own here."""


def _sized(byte: bytes) -> bytes:
    """A length and as many of ``byte``."""
    return b"(?:%b)" % b"|".join(b"\\x%02x%b{%d}" % (length, byte, length) for length in range(_LENGTH_MAX + 1))


# Bounded so that every number is one that protobuf takes, and a count one that it takes as it is.
_NUMBER = rb"[\x80-\xff]{0,8}[\x00-\x7f]"
_COUNT = rb"[\x80-\xff]{0,3}[\x00-\x7f]"


def _plain(*, keyed: bool = False, dated: bool = False) -> re.Pattern[bytes]:
    """Plain metadata: its group is the number of messages; ``keyed``, those around it are what the sticky key is of.

    ``dated``: the first group is the publish time.
    """

    def key(pattern: bytes) -> bytes:
        return rb"(%b)" % pattern if keyed else pattern

    return re.compile(
        b"".join(
            (
                rb"\x0a" + key(_sized(rb"[\x00-\x7f]")),  # producer_name; what is ASCII is UTF-8
                rb"\x10" + key(_NUMBER),  # sequence_id
                rb"\x18" + (rb"(%b)" % _NUMBER if dated else _NUMBER),  # publish_time
                rb"(?:\Z|",  # an ordinary message of its own ends here
                rb"(?:\x32" + key(_sized(rb"[\x00-\xff]")) + rb")?",  # partition_key
                rb"(?:\x40" + _COUNT + rb")?",  # compression
                rb"(?:\x48" + _COUNT + rb")?",  # uncompressed_size
                rb"(?:\x58" + rb"(" + _COUNT + rb"))?",  # num_messages_in_batch
                rb"(?:\x60" + _NUMBER + rb")?",  # event_time
                rb"(?:\x82\x01\x08[\x00-\xff]{8})?",  # schema_version
                rb"(?:\x88\x01" + key(rb"[\x00\x01]") + rb")?",  # partition_key_b64_encoded
                rb"(?:\xc0\x01" + _NUMBER + rb")?)",  # highest_sequence_id
            )
        )
    )


_PLAIN = _plain()
_KEYED = _plain(keyed=True)
_DATED = _plain(dated=True)

is_plain = _PLAIN.fullmatch
"""Whether ``data[start:end]``, which lies within ``data``, is plain metadata: called with ``data, start, end``."""


def batch_fits(batch: bytes, size: int) -> bool:
    """Whether ``size`` bytes may hold as many messages, uncompressed, as the count of a plain match says."""
    return varint.read(batch, 0)[0] * BATCHED_MESSAGE_SIZE_MIN <= size


def messages_and_key_in_plain(data: bytes, start: int, end: int) -> tuple[int, bytes] | None:
    """How many messages, at least 1, an entry has whose metadata lies there, and its sticky key.

    None if the metadata is not plain or the key is encoded.
    """
    plain = _KEYED.fullmatch(data, start, end)
    if plain is None:
        return None
    producer_name, sequence_id, partition_key, batch, encoded = plain.groups()
    if partition_key is None:
        return messages_of(batch), b"%b-%d" % (producer_name[1:], varint.read(sequence_id, 0)[0])
    return (messages_of(batch), partition_key[1:]) if encoded != b"\x01" else None


def publish_time_in_plain(data: bytes, start: int, end: int) -> int | None:
    """The publish time of the metadata that lies there, in milliseconds since the epoch; None if that is not plain."""
    plain = _DATED.fullmatch(data, start, end)
    return None if plain is None else varint.read(plain[1], 0)[0]


def messages_of(batch: bytes | None) -> int:
    """How many messages, at least 1, the count of a plain match says; None for metadata without a count."""
    return 1 if batch is None else bounded(varint.read(batch, 0)[0])


def bounded(messages: int) -> int:
    """How many messages an entry counts as that names so many: at least 1, at most BATCH_MESSAGES_MAX."""
    return min(max(1, messages), BATCH_MESSAGES_MAX)
