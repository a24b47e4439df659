"""Settings of Spark from a command, ``--conf`` and ``spark-defaults.conf``."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.driver.settings import (
    ARCHIVES,
    EXECUTOR_PYTHON_PATH,
    JAVA_OPTIONS,
    CommandSettings,
    SparkSettings,
    combine,
    executor_python,
    is_local,
    parse_conf,
    parse_defaults,
)

COMMAND = CommandSettings(
    required={"spark.speculation": "false"}, preferred={"spark.driver.memory": "512m", JAVA_OPTIONS: "-XX:+UseSerialGC"}
)


def combined(conf: dict[str, str] | None = None, defaults: dict[str, str] | None = None) -> dict[str, str]:
    return combine(COMMAND, SparkSettings(conf=conf or {}), defaults or {}, "-Dlog=x")


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[2]", True), ("local[*,8]", True), ("local-cluster[1,1,1024]", False), ("yarn", False)],
)
def test_only_the_own_process_is_local(master: str, expected: bool) -> None:
    assert is_local(master) is expected


def test_a_setting_has_a_key_of_spark_and_a_value() -> None:
    assert parse_conf(["spark.a=b=c", "spark.b="]) == {"spark.a": "b=c", "spark.b": ""}
    for text in ("spark.a", "a=b", ""):
        with pytest.raises(ConfigurationError, match=r"spark\.KEY=VALUE"):
            parse_conf([text])


def test_a_file_of_defaults_is_read_as_spark_reads_it() -> None:
    text = "# spark.no 1\nspark.a  one two \nspark.b=2\n spark.c : 3\nother 4\nspark.d -Dx \\\n   -Dy\n\n"
    assert parse_defaults(text) == {"spark.a": "one two", "spark.b": "2", "spark.c": "3", "spark.d": "-Dx -Dy"}


def test_an_operator_overrides_preferred_settings() -> None:
    assert combined()["spark.driver.memory"] == "512m"
    assert combined({"spark.driver.memory": "4g"})["spark.driver.memory"] == "4g"
    assert "spark.driver.memory" not in combined(defaults={"spark.driver.memory": "4g"}), "Spark reads the file itself"


def test_a_required_setting_stays() -> None:
    assert combined(defaults={"spark.speculation": "true"})["spark.speculation"] == "false"
    assert combined({"spark.speculation": "false"})["spark.speculation"] == "false"
    with pytest.raises(ConfigurationError, match=r"spark.speculation cannot be true: the command needs false"):
        combined({"spark.speculation": "true"})


@pytest.mark.parametrize("key", ["spark.master", "spark.app.name", "spark.submit.deployMode", "spark.remote"])
def test_settings_with_another_place_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} cannot be set"):
        combined({key: "x"})


def test_options_of_java_are_added_to_those_of_the_operator() -> None:
    assert combined()[JAVA_OPTIONS] == "-Dlog=x -XX:+UseSerialGC"
    assert combined({JAVA_OPTIONS: "-Da"}, {JAVA_OPTIONS: "-Db"})[JAVA_OPTIONS] == "-Dlog=x -Da"
    assert combined(defaults={JAVA_OPTIONS: "-Db"})[JAVA_OPTIONS] == "-Dlog=x -Db"


def test_the_package_is_found_before_the_packages_of_the_operator() -> None:
    options = SparkSettings(package=Path("/x/m.tar.gz"), conf={ARCHIVES: "y.zip#y"})
    found = combine(COMMAND, options, {EXECUTOR_PYTHON_PATH: "/opt/lib"}, "")
    assert found[ARCHIVES] == "/x/m.tar.gz#magnetar-package,y.zip#y"
    assert found[EXECUTOR_PYTHON_PATH] == "magnetar-package:/opt/lib"
    assert ARCHIVES not in combined()


def test_executors_have_the_python_that_is_named_for_them() -> None:
    key = "spark.pyspark.python"
    assert executor_python(SparkSettings(), {}, {}) == "python3"
    assert executor_python(SparkSettings(), {key: "/d"}, {}) == "/d"
    assert executor_python(SparkSettings(), {key: "/d"}, {"PYSPARK_PYTHON": "/e"}) == "/e"
    assert executor_python(SparkSettings(conf={key: "/c"}), {key: "/d"}, {"PYSPARK_PYTHON": "/e"}) == "/c"
    with pytest.raises(ConfigurationError, match="relative path"):
        executor_python(SparkSettings(), {}, {"PYSPARK_PYTHON": "./environment/bin/python"})
