"""The part of an archive that is restored, and its targets. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, InvalidTopicNameError
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from magnetar.jobs.archive.contents import ArchivedFile, Contents

_SHOWN_MAX = 10
"""Topics in an error."""

_DAY = "%Y-%m-%d"


@dataclass(frozen=True, slots=True)
class Selection:
    """Topics and publish times of an archive."""

    archive_id: str
    targets: Mapping[str, str]
    """The target of each topic."""
    start_time: datetime | None
    end_time: datetime | None

    def files(self, files: Iterable[ArchivedFile]) -> list[ArchivedFile]:
        """Return the files that can have messages of the selection."""
        first = self.start_time.strftime(_DAY) if self.start_time else ""
        last = self.end_time.strftime(_DAY) if self.end_time else "9999"
        return [one for one in files if one.topic in self.targets and first <= one.day <= last]

    def target(self, archived: str) -> str:
        """Return the target of a topic or partition of the archive."""
        source = TopicName.parse(archived)
        target = TopicName.parse(self.targets[str(source.partitioned_topic)])
        return str(target.partition(source.partition_index) if source.partition_index >= 0 else target)

    def producer_name(self, archived: str) -> str:
        """Return the name under which the messages of a topic or partition are published, in each attempt.

        It differs for each selection of other messages, because the number of those that are published already is known
        by the name only.
        """
        times = [time and time.isoformat() for time in (self.start_time, self.end_time)]
        text = json.dumps([self.archive_id, archived, *times])
        return f"restore-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


def targets_of(found: Contents, topics: Sequence[str], to: str) -> dict[str, str]:
    """Return the target of each of ``topics``, by default of all topics of the archive.

    Raises ConfigurationError for topics that the archive does not have, and for invalid or equal targets.
    """
    archived = sorted({one.topic for one in found.files})
    sources = [_name(topic, "--topics") for topic in topics] or archived
    for source in sources:
        if source not in archived:
            message = f"the archive has no messages of {source}\nhint: it has {_listed(archived)}"
            raise ConfigurationError(message)
    targets = dict(zip(sources, sources, strict=True)) | _mapping(to, sources)
    twice = sorted(target for target in set(targets.values()) if list(targets.values()).count(target) > 1)
    if twice:
        message = f"--to: {_listed(twice)} is the target of several topics"
        raise ConfigurationError(message)
    return targets


def _mapping(to: str, sources: Sequence[str]) -> dict[str, str]:
    """Return the targets that ``to`` states."""
    found = {}
    for part in filter(None, map(str.strip, to.split(","))):
        # Names of topics may contain equals signs.
        cuts = [index for index, letter in enumerate(part) if letter == "="]
        source = next((part[:index] for index in cuts if _is_one_of(part[:index], sources)), None)
        if source is not None:
            found[_name(source, "--to")] = _name(part[len(source) + 1 :], "--to")
        elif len(sources) == 1 and part == to.strip() and "=" not in part:
            found[sources[0]] = _name(part, "--to")
        else:
            message = f"--to: {part!r} is not of the form SOURCE=TARGET with one of the topics {_listed(sources)}"
            raise ConfigurationError(message)
    return found


def _is_one_of(text: str, sources: Sequence[str]) -> bool:
    try:
        return str(TopicName.parse(text)) in sources
    except InvalidTopicNameError:
        return False


def _name(text: str, option: str) -> str:
    try:
        name = TopicName.parse(text)
    except InvalidTopicNameError as error:
        message = f"{option}: {error}"
        raise ConfigurationError(message) from None
    if name.partition_index >= 0:
        message = f"{option}: {name} is a partition\nhint: name the partitioned topic"
        raise ConfigurationError(message)
    return str(name)


def _listed(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _SHOWN_MAX} others" if len(topics) > _SHOWN_MAX else ""
    return (", ".join(topics[:_SHOWN_MAX]) or "none") + more
