"""Fields of the metadata of many messages at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from magnetar.spark.read.batches import tags

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from magnetar.spark.read.batches.boundaries import Boundaries
    from magnetar.spark.read.batches.octets import Numbers, Octets, Places

_NUMBERS = (
    tags.PAYLOAD_SIZE,
    tags.COMPACTED_OUT,
    tags.EVENT_TIME,
    tags.KEY_IS_BASE64,
    tags.SEQUENCE_ID,
    tags.NULL_VALUE,
    tags.NULL_KEY,
)


@dataclass(frozen=True, slots=True)
class Spans:
    """A part of each message, or none; starts are inclusive, ends exclusive."""

    starts: Places
    ends: Places
    present: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields by message. A number that a message does not have is 0."""

    key: Spans
    ordering_key: Spans
    properties: Spans
    """All properties, each with its tag."""
    numbers: dict[int, Numbers]
    """By tag."""
    has_sequence_id: NDArray[np.bool_]
    strange: NDArray[np.bool_]
    """Whether the metadata have an unknown field, or an order of fields that Pulsar's clients do not write."""

    def flag(self, tag: int) -> NDArray[np.bool_]:
        """Return whether the field is true, by message."""
        flags: NDArray[np.bool_] = self.numbers[tag] != 0
        return flags


class _Parse:
    """The parse of one field after the other, in all messages at once."""

    def __init__(self, octets: Octets, messages: Boundaries) -> None:
        self._octets = octets
        self.at = messages.metadata_starts.copy()
        self._ends = messages.metadata_ends
        count = len(self.at)
        self.key, self.ordering_key, self.properties = (
            Spans(self.at.copy(), self.at.copy(), np.zeros(count, np.bool_)) for _ in range(3)
        )
        self.numbers = {tag: np.zeros(count, np.uint64) for tag in _NUMBERS}
        self.has_sequence_id = np.zeros(count, np.bool_)
        self.strange = np.zeros(count, np.bool_)

    def run(self) -> None:
        """Parse all fields."""
        while (rest := np.flatnonzero(self.at < self._ends)).size:
            found = self._octets.bytes[self.at[rest]]
            for tag in np.unique(found):
                self._field(int(tag), rest[found == tag])
        self.strange |= self.at != self._ends

    def _field(self, tag: int, messages: Places) -> None:
        places = self.at[messages]
        if tag in self.numbers:
            self.numbers[tag][messages], self.at[messages] = self._octets.varints(places + 1)
            if tag == tags.SEQUENCE_ID:
                self.has_sequence_id[messages] = True
            return
        if tag not in (tags.PROPERTIES, tags.KEY, tags.ORDERING_KEY):
            self._give_up(messages)
            return
        lengths, starts = self._octets.varints(places + 1)
        ends = self._octets.after(starts, lengths)
        self.at[messages] = ends
        if tag == tags.KEY:
            _set(self.key, messages, starts, ends)
        elif tag == tags.ORDERING_KEY:
            _set(self.ordering_key, messages, starts, ends)
        elif tag == tags.PROPERTIES:
            again = self.properties.present[messages]
            self.strange[messages] |= again & (self.properties.ends[messages] != places)
            _set(self.properties, messages, np.where(again, self.properties.starts[messages], places), ends)
        beyond = messages[ends > self._ends[messages]]
        if beyond.size:
            self._give_up(beyond)

    def _give_up(self, messages: Places) -> None:
        self.strange[messages] = True
        self.at[messages] = self._ends[messages]


def _set(spans: Spans, messages: Places, starts: Places, ends: Places) -> None:
    spans.starts[messages], spans.ends[messages], spans.present[messages] = starts, ends, True


def fields(octets: Octets, messages: Boundaries) -> Fields:
    """Parse the metadata of ``messages``."""
    parse = _Parse(octets, messages)
    parse.run()
    return Fields(parse.key, parse.ordering_key, parse.properties, parse.numbers, parse.has_sequence_id, parse.strange)
