"""Message metadata in its usual form, recognized by a regular expression.

A broker checks the metadata of every published entry and reads the number of messages of every dispatched entry. A
regular expression does so in a third of protobuf's time. *Plain* metadata has each field at most once and in the order
of the field numbers, as every client writes it, and no field that concerns dispatch but the number of messages.
Metadata of any other form is parsed by protobuf.
"""

from __future__ import annotations

import re

from magnetar.base.limits import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_SIZE_MIN
from magnetar.wire import varint

_LENGTH_MAX = 63
"""Longer names and keys are left to protobuf: each length is one alternative of the regular expression."""


def _sized(byte: bytes) -> bytes:
    """Return a pattern for a length and as many of ``byte``."""
    return b"(?:%b)" % b"|".join(b"\\x%02x%b{%d}" % (length, byte, length) for length in range(_LENGTH_MAX + 1))


# Bounded to numbers that protobuf accepts, and to counts that it does not truncate.
_NUMBER = rb"[\x80-\xff]{0,8}[\x00-\x7f]"
_COUNT = rb"[\x80-\xff]{0,3}[\x00-\x7f]"


def _plain(*, keyed: bool = False, dated: bool = False, versioned: bool = False) -> re.Pattern[bytes]:
    """Return the pattern of plain metadata; its group is the number of messages.

    ``keyed`` adds groups around it for the fields of the sticky key, ``dated`` a first group for the publish time, and
    ``versioned`` a last group for the schema version with its key and its length.
    """

    def key(pattern: bytes) -> bytes:
        return rb"(%b)" % pattern if keyed else pattern

    return re.compile(
        b"".join(
            (
                rb"\x0a" + key(_sized(rb"[\x00-\x7f]")),  # producer_name; ASCII is valid UTF-8
                rb"\x10" + key(_NUMBER),  # sequence_id
                rb"\x18" + (rb"(%b)" % _NUMBER if dated else _NUMBER),  # publish_time
                rb"(?:\Z|",  # the metadata of a message outside a batch ends here
                rb"(?:\x32" + key(_sized(rb"[\x00-\xff]")) + rb")?",  # partition_key
                rb"(?:\x40" + _COUNT + rb")?",  # compression
                rb"(?:\x48" + _COUNT + rb")?",  # uncompressed_size
                rb"(?:\x58" + rb"(" + _COUNT + rb"))?",  # num_messages_in_batch
                rb"(?:\x60" + _NUMBER + rb")?",  # event_time
                (rb"(%b)?" if versioned else rb"(?:%b)?") % rb"\x82\x01\x08[\x00-\xff]{8}",  # schema_version
                rb"(?:\x88\x01" + key(rb"[\x00\x01]") + rb")?",  # partition_key_b64_encoded
                rb"(?:\xc0\x01" + _NUMBER + rb")?)",  # highest_sequence_id
            )
        )
    )


_PLAIN = _plain()
_KEYED = _plain(keyed=True)
_DATED = _plain(dated=True)
_VERSIONED = _plain(versioned=True)

is_plain = _PLAIN.fullmatch
"""Whether ``data[start:end]``, which lies within ``data``, is plain metadata; the arguments are ``data, start, end``.
"""


is_plain_with_version = _VERSIONED.fullmatch
"""The same, with a second group for the schema version with its key and its length."""


def batch_fits(batch: bytes, size: int) -> bool:
    """Whether ``size`` bytes are large enough for the number of messages in ``batch``, the first group of a match."""
    return varint.read(batch, 0)[0] * BATCHED_MESSAGE_SIZE_MIN <= size


def messages_and_key_in_plain(data: bytes, start: int, end: int) -> tuple[int, bytes] | None:
    """Return the number of messages and the sticky key; None if the metadata is not plain or the key is encoded."""
    plain = _KEYED.fullmatch(data, start, end)
    if plain is None:
        return None
    producer_name, sequence_id, partition_key, batch, encoded = plain.groups()
    if partition_key is None:
        return messages_of(batch), b"%b-%d" % (producer_name[1:], varint.read(sequence_id, 0)[0])
    return (messages_of(batch), partition_key[1:]) if encoded != b"\x01" else None


def publish_time_in_plain(data: bytes, start: int, end: int) -> int | None:
    """Return the publish time in milliseconds since the epoch; None if the metadata is not plain."""
    plain = _DATED.fullmatch(data, start, end)
    return None if plain is None else varint.read(plain[1], 0)[0]


def messages_of(batch: bytes | None) -> int:
    """Return the number of messages, at least 1; ``batch`` is the group of a plain match, None without a count."""
    return 1 if batch is None else bounded(varint.read(batch, 0)[0])


def bounded(messages: int) -> int:
    """Return a stated number of messages, bounded to 1 to BATCH_MESSAGES_MAX."""
    return min(max(1, messages), BATCH_MESSAGES_MAX)
