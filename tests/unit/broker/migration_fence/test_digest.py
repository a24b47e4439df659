"""The digest of unacknowledged messages is equal where the state is, and nowhere else."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import Position
from magnetar.broker.loop.slices import at_once
from magnetar.broker.migration_fence.digest import digest_steps
from magnetar.cursor.state import CursorState
from magnetar.geo.origins.index import OriginIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

Origin = tuple[str, Position]


class Space:
    """The positions of a log with ledgers of some entries each."""

    def __init__(self, ledgers: dict[int, int]) -> None:
        self._positions = [Position(ledger, entry) for ledger, count in ledgers.items() for entry in range(count)]

    def next_position(self, position: Position) -> Position:
        later = [each for each in self._positions if each > position]
        return later[0] if later else Position(position.ledger_id, position.entry_id + 1)

    def previous_position(self, position: Position) -> Position:
        earlier = [each for each in self._positions if each < position]
        return earlier[-1] if earlier else Position(position.ledger_id, -1)

    def count(self, after: Position, through: Position) -> int:
        return sum(after < each <= through for each in self._positions)


class Log(NamedTuple):
    origins: OriginIndex
    places: dict[Origin, Position]
    space: Space

    def digest(self, acknowledged: Iterable[Origin], partial: Iterable[tuple[Origin, int]] = ()) -> str:
        first, last = min(self.places.values()), max(self.places.values())
        state = CursorState(self.space, Position(first.ledger_id, first.entry_id - 1))
        state.acknowledge(sorted(self.places[each] for each in acknowledged if each in self.places))
        for origin, left in partial:
            state.acknowledge_batch(self.places[origin], left, 4)
        return at_once(digest_steps(self.origins, state, first, last))


def log_of(local: str, origins: list[Origin], ledger_size: int) -> Log:
    """Return the log of a cluster with entries in this order; own ones are where their positions are."""
    index, places, ledgers = OriginIndex(local), dict[Origin, Position](), dict[int, int]()
    for number, (cluster, position) in enumerate(origins):
        place = position if cluster == local else Position(500 + number // ledger_size, number % ledger_size)
        index.append(cluster, position, 1, place)
        places[cluster, position] = place
        ledgers[place.ledger_id] = max(ledgers.get(place.ledger_id, 0), place.entry_id + 1)
    return Log(index, places, Space(ledgers))


def of(cluster: str, ledger: int, count: int) -> list[Origin]:
    return [(cluster, Position(ledger, entry)) for entry in range(count)]


def interleaved(random: Random, *origins: list[Origin]) -> list[Origin]:
    left = [list(each) for each in origins]
    mixed: list[Origin] = []
    while any(left):
        mixed.append(random.choice([each for each in left if each]).pop(0))
    return mixed


def test_logs_that_mix_the_same_entries_differently_have_equal_digests() -> None:
    random = Random(7)
    for _ in range(20):
        third, fourth = of("c", 30, 12), of("d", 40, 9)
        entries = [*third, *fourth]
        one = log_of("a", interleaved(random, third, fourth), ledger_size=5)
        other = log_of("b", interleaved(random, third, fourth), ledger_size=3)
        done = random.sample(entries, random.randrange(len(entries)))
        assert one.digest(done) == other.digest(done)
        missing = [each for each in entries if each not in done]
        assert one.digest([*done, missing[0]]) != other.digest(done)


def test_the_own_entries_of_one_cluster_are_copies_in_the_other() -> None:
    published = [*of("a", 7, 4), *of("a", 9, 3)]
    source, target = log_of("a", published, 1), log_of("b", published, ledger_size=4)
    for done in ([], published[:1], published[2:6], published):
        assert source.digest(done) == target.digest(done)
    assert source.digest(published[:1]) != target.digest(published[:2])


def test_trimmed_entries_do_not_matter() -> None:
    published = [*of("c", 7, 4), *of("c", 9, 3)]
    whole, trimmed = log_of("a", published, 4), log_of("b", published[4:], 4)
    assert whole.digest(published[:5]) == trimmed.digest(published[4:5])


def test_the_unacknowledged_messages_of_a_batch_matter() -> None:
    published = of("c", 7, 3)
    one, other = log_of("a", published, 2), log_of("b", published, 3)
    batch = published[1]
    assert one.digest([], [(batch, 0b0110)]) == other.digest([], [(batch, 0b0110)])
    assert one.digest([], [(batch, 0b0110)]) != other.digest([], [(batch, 0b0100)])
    assert one.digest([], [(batch, 0b0110)]) != other.digest([])
