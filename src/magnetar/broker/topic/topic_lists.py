"""The answers to GET_TOPICS_OF_NAMESPACE: made in slices, and kept for the next who ask until a topic comes or goes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c
import re2  # a stranger's pattern must not hold the loop: its time is linear in the name

from magnetar.base.names import without_partition
from magnetar.wire.topic_list import encoded_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.names import NamespaceName
    from magnetar.broker.loop.slices import SlicedWork
    from magnetar.metadata.resources import Topics

PATTERN_LENGTH_MAX = 50
"""Characters of a pattern that the broker applies itself (``subscriptionPatternMaxLength``)."""

NAMES_AT_ONCE = 500
"""Names that one step looks at, some hundred microseconds of work."""

CACHED_BYTES_MAX = 8 << 20
"""Bytes of answers that stay in memory, beside the one that was made last. Each name takes some 50."""

_PATTERN_OPTIONS = re2.Options()
_PATTERN_OPTIONS.log_errors = False


class TopicList(NamedTuple):
    """Names of topics, as far as they are the same in each answer."""

    encoded: bytes
    """The names, in the encoding of the wire."""
    hash: str
    """Tells a client whether it knows them already."""
    filtered: bool
    """Whether a pattern was applied."""


NO_TOPICS = TopicList(b"", bytes(4).hex(), filtered=False)
"""A list without names, and without a pattern."""


class _Making(NamedTuple):
    """A list that is being made."""

    texts: tuple[str, ...]
    waiting: list[Callable[[TopicList], None]]


class TopicLists:
    """The lists of the topics of namespaces, whole or by pattern."""

    def __init__(self, topics: Topics, work: SlicedWork[object, None]) -> None:
        """Nothing is made yet; ``work`` makes long lists in slices."""
        self._topics = topics
        self._work = work
        self._made: OrderedDict[tuple[NamespaceName, str], tuple[tuple[str, ...], TopicList]] = OrderedDict()
        """By namespace and pattern: what was made, and of which names. The one that was asked for last is last."""
        self._bytes = 0
        self._making: dict[tuple[NamespaceName, str], _Making] = {}

    def find(self, namespace: NamespaceName, pattern: str, done: Callable[[TopicList], None]) -> None:
        """Call ``done``, at once or in a later turn, with the topics of ``namespace`` that match ``pattern``.

        All topics match a pattern that is empty, too long or no regular expression: then the client has to look.
        """
        compiled = _compiled(pattern)
        key, texts = (namespace, pattern if compiled else ""), self._topics.texts_of_namespace(namespace)
        found = self._made.get(key)
        if found is not None and found[0] is texts:
            self._made.move_to_end(key)
            done(found[1])
            return
        making = self._making.get(key)
        if making is not None and making.texts is texts:
            making.waiting.append(done)
            return
        making = self._making[key] = _Making(texts, [done])
        self._work.start(object(), self._make(key, making, compiled), lambda _: None)

    def _make(self, key: tuple[NamespaceName, str], making: _Making, pattern: re2.Pattern | None) -> Iterator[None]:
        """Make a list in steps, keep it, and give it to all who wait for it."""
        texts, parts, crc, separator = making.texts, list[bytes](), 0, b""
        for first in range(0, len(texts), NAMES_AT_ONCE):
            names = texts[first : first + NAMES_AT_ONCE]
            wanted = names if pattern is None else [name for name in names if pattern.fullmatch(_subject(name))]
            if wanted:
                parts.append(encoded_topics(wanted))
                crc = google_crc32c.extend(crc, separator + ",".join(wanted).encode())
                separator = b","
            yield
        made = TopicList(b"".join(parts), crc.to_bytes(4, "little").hex(), pattern is not None)
        if self._making.get(key) is making:  # else a list of newer names is being made
            del self._making[key]
            self._keep(key, texts, made)
        for done in making.waiting:
            done(made)

    def _keep(self, key: tuple[NamespaceName, str], texts: tuple[str, ...], made: TopicList) -> None:
        before = self._made.pop(key, None)
        self._bytes += len(made.encoded) - (len(before[1].encoded) if before is not None else 0)
        self._made[key] = texts, made
        while self._bytes > CACHED_BYTES_MAX and len(self._made) > 1:
            _, (_, evicted) = self._made.popitem(last=False)
            self._bytes -= len(evicted.encoded)


def _compiled(pattern: str) -> re2.Pattern | None:
    """The pattern to apply here; None leaves it to the client: none was sent, or RE2 cannot have it in bounds."""
    if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
        return None
    try:
        return re2.compile(pattern, _PATTERN_OPTIONS)
    except re2.error:
        return None


def _subject(name: str) -> str:
    """What a pattern is matched against: ``tenant/namespace/topic``, a partition by its topic's name."""
    return without_partition(name.partition("://")[2])
