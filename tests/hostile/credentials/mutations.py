"""Mutations of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

_CHANGES_MAX: Final = 4

_FLIPS: Final = 0.7

_INTERESTING: Final = (0x00, 0x01, 0x20, 0x2E, 0x3D, 0x7F, 0x80, 0xFE, 0xFF)


def replaced(data: bytes, rng: random.Random) -> bytes:
    """Return other data of the same length, so that the lengths inside mostly stay right."""
    found = bytearray(data)
    while found == data:
        for _ in range(rng.randint(1, _CHANGES_MAX)):
            at = rng.randrange(len(found))
            found[at] = found[at] ^ 1 << rng.randrange(8) if rng.random() < _FLIPS else rng.choice(_INTERESTING)
    return bytes(found)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some changes. They may cancel each other out."""
    found = bytearray(data)
    for _ in range(rng.randint(1, _CHANGES_MAX)):
        if not found:
            break
        at = rng.randrange(len(found))
        match rng.randrange(7):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.choice(_INTERESTING)
            case 2:
                found[at:at] = rng.randbytes(rng.randint(1, 8))
            case 3:
                del found[at : at + rng.randint(1, 16)]
            case 4:
                found[at:at] = found[at : at + rng.randint(1, 64)]
            case 5:
                del found[at:]
            case _:
                other = rng.randrange(len(found))
                found[at], found[other] = found[other], found[at]
    return bytes(found)
