"""Bundles of a namespace: ranges of the hashes of its topics. With one broker per cluster they only group topics."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from typing import TYPE_CHECKING, Self
from zlib import crc32

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metadata.policies import BundlesData

_LAST = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Bundle:
    """The hashes from ``first`` up to ``end``, which belongs to the last bundle only."""

    first: int
    end: int

    def __str__(self) -> str:
        """Return the range as Pulsar writes it."""
        return f"0x{self.first:08x}_0x{self.end:08x}"

    @classmethod
    def parse(cls, text: str, namespace: NamespaceName, bundles: BundlesData) -> Self:
        """Return the bundle with this name; refuses with 412 a name that the namespace does not have."""
        try:
            first, end = (int(bound, 16) for bound in text.split("_"))
        except ValueError:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"Invalid bundle range: {text}") from None
        bounds = _bounds(bundles)
        if first not in bounds[:-1]:
            message = f"Invalid lower boundary for bundle {namespace}/{text}"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        expected = cls(first, bounds[bounds.index(first) + 1])
        if expected.end != end:
            message = f"Invalid upper boundary for bundle {namespace}/{text}."
            message += f" Expected upper boundary of {namespace}/{expected}"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        return expected

    def contains(self, topic: TopicName) -> bool:
        """Return whether a topic, or a partition, belongs to the bundle."""
        found = crc32(str(topic).encode())
        return self.first <= found < self.end or (found == self.end == _LAST)


def all_bundles(bundles: BundlesData) -> list[Bundle]:
    """Return the bundles of a namespace in order."""
    return [Bundle(first, end) for first, end in pairwise(_bounds(bundles))]


def bundle_of(topic: TopicName, bundles: BundlesData) -> Bundle:
    """Return the bundle of a topic."""
    found = all_bundles(bundles)
    bounds = [each.first for each in found]
    return found[bisect_right(bounds, crc32(str(topic).encode())) - 1]


def _bounds(bundles: BundlesData) -> list[int]:
    return [int(bound, 16) for bound in bundles.boundaries]
