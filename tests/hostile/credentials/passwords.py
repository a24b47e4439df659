"""Names and passwords that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.hostile.credentials.mutations import mutated

if TYPE_CHECKING:
    import random

USER: Final = b"bob"
PASSWORD: Final = b"a password"
GOOD: Final = USER + b":" + PASSWORD


def password(hashed: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the kind of an attack, and the data of basic authentication; ``hashed`` is what the broker stores."""
    kind = rng.randrange(4)
    if kind == 0:
        found = GOOD
        while found == GOOD:
            found = mutated(GOOD, rng)
        return "basic: damaged", found
    if kind == 1:
        size = rng.choice((71, 72, 73, 4096, 4097, 50_000))
        return "basic: oversized", USER + b":" + PASSWORD + b"x" * size
    if kind == 2:
        return "basic: the hash", rng.choice((USER + b":" + hashed, hashed, USER + b":" + hashed.partition(b"}")[2]))
    return "basic: not a password", rng.choice(
        (
            b"",
            b":",
            b"bob",
            b"bob:",
            b":a password",
            b"bob:\0",
            b"bob:a password\0",
            b"bob:a passwor",
            b"bob:A PASSWORD",
            b"BOB:a password",
            b"bob\0:a password",
            b" bob:a password",
            b"bob:a password:",
            b"\xff:\xff",
            b"root:a password",
            b"bob::a password",
            b"#bob:a password",
            b"bob\n:a password",
        )
    )
