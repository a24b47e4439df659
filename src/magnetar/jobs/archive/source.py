"""The data source of an archive: its options, and the options of the command that they come from. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from magnetar.jobs.archive.settings import ArchiveSettings

_OF_COMMAND: Final = {
    "failOnDataLoss=false": "--no-fail-on-data-loss",
    "option topicsPattern": "--topics-pattern",
    "predefinedSubscription": "--subscription",
}
"""Words in errors of the data source, and what the user of the command knows instead."""

_WORDS: Final = re.compile("|".join(map(re.escape, _OF_COMMAND)))


def options_of(settings: ArchiveSettings) -> dict[str, str]:
    """Return the options of the data source."""
    given = {
        "service.url": settings.cluster.broker_url,
        "admin.url": settings.cluster.admin_url,
        "failOnDataLoss": str(settings.fail_on_data_loss),
    }
    if settings.cluster.client_conf:
        given["client.conf"] = settings.cluster.client_conf
    if settings.topics:
        given["topics"] = ",".join(settings.topics)
    if settings.topics_pattern:
        given["topicsPattern"] = settings.topics_pattern
    if settings.subscription:
        given["predefinedSubscription"] = settings.subscription
    return given


def in_terms_of_command(text: str) -> str:
    """Return the text of an error with the options of the command instead of those of the data source."""
    return _WORDS.sub(lambda found: _OF_COMMAND[found[0]], text)
