"""The data source of an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.errors import ConfigurationError, DataLossError
from magnetar.base.position import Position
from magnetar.jobs.archive.settings import ArchiveSettings
from magnetar.jobs.archive.source import in_terms_of_command, options_of
from magnetar.pipeline.options import ClusterAddress
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.planning import check_start
from magnetar.spark.read.ranges import Log

CLUSTER = ClusterAddress("ewr", "pulsar://b:6650", "http://b:8080", "/client.conf")


def test_the_options_are_those_of_the_command() -> None:
    settings = ArchiveSettings(
        CLUSTER, Path("/a"), topics_pattern="t/n/a-.*", subscription="s", fail_on_data_loss=False
    )
    found = ReadOptions.of_stream(options_of(settings))
    assert (found.topics_pattern, found.predefined_subscription, found.fail_on_data_loss) == ("t/n/a-.*", "s", False)
    found = ReadOptions.of_stream(options_of(ArchiveSettings(CLUSTER, Path("/a"), topics=("a", "b"))))
    assert (found.topics, found.fail_on_data_loss) == ("a,b", True)


def test_the_hint_about_lost_data_names_the_option_of_the_command() -> None:
    with pytest.raises(DataLossError) as raised:
        check_start("t", Position(7, 0), Log([]))
    text = in_terms_of_command(str(raised.value))
    assert text.endswith("or go on without them with --no-fail-on-data-loss")


def test_a_wrong_pattern_is_one_of_the_command() -> None:
    error = ConfigurationError("option topicsPattern: 'a' is not of the form persistent://tenant/namespace/expression")
    assert in_terms_of_command(str(error)).startswith("--topics-pattern: 'a' is not of the form")
