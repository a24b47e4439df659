"""Options of all commands that use Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.cli.spark_options import spark_settings

PACKAGE = Path("m.tar.gz")


@pytest.mark.parametrize("master", [None, "local", "local[2]"])
def test_a_package_needs_a_cluster(master: str | None) -> None:
    with pytest.raises(ConfigurationError, match="--package is for a Spark cluster\nhint: name its --master"):
        spark_settings(master, None, None, None, PACKAGE)
    assert spark_settings("yarn", None, None, None, PACKAGE).package == PACKAGE


def test_settings_and_an_absolute_directory_are_passed_on() -> None:
    found = spark_settings(None, Path("work"), None, ["spark.a=1", "spark.b=2", "spark.a=3"], None)
    assert found.conf == {"spark.a": "3", "spark.b": "2"}
    assert found.work_dir == Path.cwd() / "work"
