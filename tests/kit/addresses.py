"""Addresses of this machine, for clients of which each is a source of its own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOSTS = 254
"""Values of a part of an address that every system accepts."""


def loopback_addresses(first: int = 0) -> Iterator[str]:
    """Yield addresses of the loopback interface from the ``first`` on that differ for a long time, not 127.0.0.1."""
    for number in itertools.count(first):
        rest, last = divmod(number, _HOSTS)
        second, third = divmod(rest, _HOSTS)
        yield f"127.{1 + second % _HOSTS}.{1 + third}.{1 + last}"
