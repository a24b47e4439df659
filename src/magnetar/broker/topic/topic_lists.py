"""Answers to GET_TOPICS_OF_NAMESPACE, made in slices and cached until a topic is created or deleted."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import google_crc32c
import re2  # RE2's time is linear in the name and in the size of the compiled pattern

from magnetar.base.limits import Limit
from magnetar.base.names import without_partition
from magnetar.wire.topic_list import encoded_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from magnetar.base.names import NamespaceName
    from magnetar.broker.loop.slices import SlicedWork
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.metadata.topic_names import Names

    _Key = tuple["NameSource", NamespaceName, str, bool]
    """Source, namespace and pattern of a list, and whether it has system topics."""

PATTERN_LENGTH_MAX = 50
"""Maximum characters of a pattern that the broker applies itself (``subscriptionPatternMaxLength``)."""

PATTERN_MEMORY_MAX = 64 << 10
"""Maximum bytes of a compiled pattern with the state of its matches (``subscriptionPatternMaxMemory``).

``(\\pL{30}){30}`` takes a second to compile without such a limit.
"""

PATTERNS_AT_ONCE_MAX = 100
"""Maximum number of pattern lists in progress, for all clients together (``maxTopicListPatternsInProgress``)."""

NAMES_AT_ONCE = 500
"""Maximum number of names per step, some hundred microseconds of work."""

MATCHING_AT_ONCE = 200_000
"""Work per step: characters of names times instructions of the pattern, 15 ns each at most.

A step is at least one name. The largest pattern and the longest name take some 20 ms.
"""

CACHED_BYTES_MAX = 8 << 20
"""Maximum bytes of cached answers, in addition to the newest one. Each name takes some 50 bytes."""

CACHED_LIST_BYTES = 500
"""Memory of a cached answer without names, including its pattern."""

_SYSTEM_TOPICS = (
    "__change_events",
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_indexes",
    "__transaction_buffer_snapshot_segments",
)
"""Local names of Apache Pulsar's own topics in each namespace (``SystemTopicNames``); it replicates the first one."""

_PENDING_ACKS = "__transaction_pending_ack"
"""End of the names of Apache Pulsar's own topics for each subscription."""

_DOMAIN_END = "://"
_DOMAINS = ("non-persistent", "persistent")
"""In this order, because the first one ends with the second one."""

_PATTERN_OPTIONS = re2.Options()
_PATTERN_OPTIONS.log_errors = False
_PATTERN_OPTIONS.max_mem = PATTERN_MEMORY_MAX

_TOO_LARGE = b"too large"
"""Part of RE2's error for a pattern that needs more memory than allowed."""


class TopicList(NamedTuple):
    """The part of an answer that is the same for all clients."""

    encoded: bytes
    """Encoded names."""
    hash: str
    """Hash by which a client detects that its names are up to date."""
    filtered: bool
    """Whether the broker applied the pattern."""


class NameSource(Protocol):
    """The names of topics."""

    def names_in_memory(self, namespace: NamespaceName) -> Names | None:
        """Return what ``reading_names`` would, if it needs no step; otherwise None."""
        ...

    def reading_names(self, namespace: NamespaceName) -> Generator[None, None, Names]:
        """Return the full names of the topics of ``namespace``, sorted; read in steps."""
        ...


@dataclass(slots=True, eq=False)
class _Making:
    """A list in progress."""

    names: Names | None
    """None while the names are being read: any change until then is part of the list."""
    waiting: list[Callable[[TopicList], None]]


class TopicLists:
    """Cached lists of the topics of namespaces, complete or by pattern."""

    def __init__(self, topics: NameSource, work: SlicedWork[object, None], limit_hits: LimitHits) -> None:
        """Create the cache; ``work`` makes long lists in slices."""
        self._topics = topics
        self._limit_hits = limit_hits
        self._work = work
        self._made: OrderedDict[_Key, tuple[int, TopicList]] = OrderedDict()
        """Lists by source, namespace and pattern, with the version of the names; the most recently used is last."""
        self._bytes = 0
        self._making: dict[_Key, _Making] = {}

    def find(
        self,
        namespace: NamespaceName,
        pattern: str,
        done: Callable[[TopicList], None],
        source: NameSource | None = None,
        *,
        with_system_topics: bool = False,
    ) -> None:
        """Call ``done``, at once or in a later turn, with the topics of ``namespace`` that match ``pattern``.

        A pattern that is empty, beyond a limit or no regular expression matches all topics; the client applies it then.
        The domain that a pattern may begin with is ignored, as in Pulsar: ``source`` determines the domain.
        ``source`` has the names; by default, those of the persistent topics. As in Apache Pulsar, its own topics are
        left out, unless they are asked for ``with_system_topics``.
        """
        compiled = self._compiled(pattern)
        source = source or self._topics
        key = source, namespace, pattern if compiled else "", with_system_topics
        names = source.names_in_memory(namespace)
        found = self._made.get(key)
        if found is not None and names is not None and found[0] == names.version:
            self._made.move_to_end(key)
            done(found[1])
            return
        making = self._making.get(key)
        if making is not None and making.names in (None, names):
            making.waiting.append(done)
            return
        if compiled and len(self._making) >= PATTERNS_AT_ONCE_MAX:
            self._limit_hits.hit(Limit.TOPICS_PATTERNS)
            self.find(namespace, "", done, source, with_system_topics=with_system_topics)
            return
        making = self._making[key] = _Making(names, [done])
        self._work.start(object(), self._make(key, making, compiled), lambda _: None)

    def _make(self, key: _Key, making: _Making, pattern: re2.Pattern | None) -> Iterator[None]:
        """Make a list in steps, cache it, and pass it to all waiting requests."""
        source, namespace, _, with_system_topics = key
        if making.names is None:
            making.names = yield from source.reading_names(namespace)
        (texts, version), parts, crc, separator = making.names, list[bytes](), 0, b""
        for some in _in_steps(texts, pattern):
            wanted = some if with_system_topics else [name for name in some if not _is_system_topic(name)]
            if pattern is not None:
                wanted = [name for name in wanted if pattern.fullmatch(_subject(name))]
            if wanted:
                parts.append(encoded_topics(wanted))
                crc = google_crc32c.extend(crc, separator + ",".join(wanted).encode())
                separator = b","
            yield
        made = TopicList(b"".join(parts), crc.to_bytes(4, "little").hex(), pattern is not None)
        if self._making.get(key) is making:  # otherwise a list of newer names is being made
            del self._making[key]
            if texts:  # clients may ask for namespaces that do not exist
                self._keep(key, version, made)
        for done in making.waiting:
            done(made)

    def _compiled(self, pattern: str) -> re2.Pattern | None:
        """Return the pattern to apply here; None if there is none, or if RE2 cannot apply it within its limits."""
        if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
            return None
        of_names = _without_domain(pattern)
        if of_names is None:
            return None
        try:
            return re2.compile(of_names, _PATTERN_OPTIONS)
        except re2.error as error:
            if _TOO_LARGE in error.args[0]:
                self._limit_hits.hit(Limit.TOPICS_PATTERN_MEMORY)
            return None

    def _keep(self, key: _Key, version: int, made: TopicList) -> None:
        before = self._made.pop(key, None)
        self._bytes += _cached_bytes(made) - (_cached_bytes(before[1]) if before is not None else 0)
        self._made[key] = version, made
        while self._bytes > CACHED_BYTES_MAX and len(self._made) > 1:
            _, (_, evicted) = self._made.popitem(last=False)
            self._bytes -= _cached_bytes(evicted)


def _without_domain(pattern: str) -> str | None:
    """Return the pattern for names without their domain; None if it has a domain that does not exist.

    Java's clients send the pattern of the application, which mostly begins with ``persistent://`` or ``^persistent://``.
    """
    before, separator, after = pattern.partition(_DOMAIN_END)
    if not separator:
        return pattern
    domain = next((each for each in _DOMAINS if before.endswith(each)), None)
    return None if domain is None else before.removesuffix(domain) + after


def _cached_bytes(made: TopicList) -> int:
    return CACHED_LIST_BYTES + len(made.encoded)


def _in_steps(texts: tuple[str, ...], pattern: re2.Pattern | None) -> Iterator[tuple[str, ...]]:
    """Divide names such that matching those of a step does not take long."""
    instructions = 0 if pattern is None else pattern.programsize
    first, characters = 0, 0
    for number, text in enumerate(texts):
        characters += len(text)
        if number + 1 - first >= NAMES_AT_ONCE or characters * instructions >= MATCHING_AT_ONCE:
            yield texts[first : number + 1]
            first, characters = number + 1, 0
    yield texts[first:]


def _is_system_topic(name: str) -> bool:
    """Return whether a topic, given by its full name, is one of Apache Pulsar's own."""
    local_name = name.rpartition("/")[2]
    if "__" not in local_name:
        return False
    base = without_partition(local_name)
    return base in _SYSTEM_TOPICS or base.endswith(_PENDING_ACKS)


def _subject(name: str) -> str:
    """Return the name that a pattern is matched with: ``tenant/namespace/topic``, without the number of a partition."""
    return without_partition(name.partition(_DOMAIN_END)[2])
