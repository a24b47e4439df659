"""The partition of a message, as Pulsar's Java client chooses it by default. Pure."""

from __future__ import annotations

_HASH_MASK = 0x7FFFFFFF


def java_hash(text: str) -> int:
    """Return ``String.hashCode() & Integer.MAX_VALUE``, the hash of Pulsar's ``JavaStringHash``."""
    units = memoryview(text.encode("utf-16-le")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & _HASH_MASK


def partition_of(key: str | None, partitions: int, number: int) -> int:
    """Return the index of a message's partition: by its key, or by ``number`` if it has none."""
    return (number if key is None else java_hash(key)) % partitions
