"""Checks of the executors and the task slots of a Spark cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar import __version__
from magnetar.base.errors import ConfigurationError
from magnetar.pipeline import limits
from magnetar.pipeline.driver.executors import (
    Executor,
    _answers,
    _digest,
    _mark,
    check_answers,
    explained,
    probe,
    skews,
)
from magnetar.pipeline.driver.slots import ANY, Need, SlotWait, SlotWatch, shortage
from magnetar.pipeline.driver.source import LeaseStreamReader, TargetPartition, rotated
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions
from magnetar.pipeline.spreading import Assignment


def test_a_missing_module_is_named() -> None:
    stack = "Traceback …\n  File …\nModuleNotFoundError: No module named 'magnetar.jobs'\n\tat java"
    text = explained(stack, "python3")
    assert text.startswith(
        "Python on an executor (python3) has no module magnetar.jobs\nhint: magnetar pipeline package"
    )


def test_another_version_of_python_is_named() -> None:
    stack = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark"
    assert "(python3) has version 3.9, which is not that of the driver\nhint: " in explained(stack, "python3")


def test_a_missing_python_is_named() -> None:
    text = explained('java.io.IOException: Cannot run program "python9": error=2', "python9")
    assert text.startswith("an executor has no program python9\nhint: ")


def test_another_failure_has_its_first_line() -> None:
    assert explained("Job aborted\n\tat x", "python3") == "a task on an executor failed: Job aborted"
    assert explained("", "python3") == "a task on an executor failed: unknown reason"


def test_executors_need_the_version_of_the_driver() -> None:
    check_answers([Executor("a", __version__, 0.0)], [])
    with pytest.raises(ConfigurationError, match=r"on b has version 0.0.1 of Magnetar, the driver .*\nhint: "):
        check_answers([Executor("a", __version__, 0.0), Executor("b", "0.0.1", 0.0)], [])


def test_executors_see_what_the_driver_writes_and_it_sees_what_they_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with _mark(tmp_path) as mark:
        (answer,) = probe(["json"], {str(file): _digest(file), str(mark): _digest(mark)}, [], [3])
        assert answer.unseen == ()
        assert [path.name for path in _answers(mark)] == [f"{mark.name}-3"]
    assert list(tmp_path.iterdir()) == [file], "the check leaves nothing"


def test_a_file_that_is_not_shared_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("y")
    (answer,) = probe([], {str(tmp_path / "none"): "1", str(other): "1"}, [], [0])
    assert answer.unseen == (str(tmp_path / "none"), str(other))
    with pytest.raises(ConfigurationError, match=rf"does not see {tmp_path / 'none'} of the driver\nhint: name a dir"):
        check_answers([answer], [])
    with pytest.raises(ConfigurationError, match="the driver does not see in /x what executors write there"):
        check_answers([], [Path("/x")])


def test_an_executor_that_cannot_use_its_credentials_is_named(tmp_path: Path) -> None:
    conf, token = tmp_path / "client.conf", tmp_path / "token"
    conf.write_text(f"authParams={token.as_uri()}\n")
    (answer,) = probe([], {}, [str(conf)], [0])
    with pytest.raises(ConfigurationError, match=f"the executor on .* cannot use its credentials: .*{token}"):
        check_answers([answer], [])
    token.write_text("abc")
    (answer,) = probe([], {}, ["", str(conf)], [0])
    check_answers([answer], [])


def test_a_wrong_clock_is_named() -> None:
    found = [Executor("a", "", 100.0), Executor("slow", "", 95.5), Executor("fast", "", 103.5)]
    slow, fast = skews(found, 99.0, 101.0)
    assert slow.startswith("the clock of slow differs from the driver's by 3.5 s\nhint: ")
    assert fast.startswith("the clock of fast differs from the driver's by 2.5 s\nhint: ")


def test_a_shortage_says_what_it_means() -> None:
    need = Need.of_links(3)
    assert shortage(6, need) == ""
    found = "Spark has 5 task slots and the links need 6: links pause for some seconds at each hand-over"
    assert shortage(5, need).startswith(f"{found}\nhint: ")
    found = "Spark has 2 task slots and the links need 6: tasks of links wait for each other"
    assert shortage(2, need).startswith(f"{found}\nhint: ")


def test_a_shortage_is_told_once_if_it_lasts() -> None:
    watch, lasting = SlotWatch(Need.of_links(1)), limits.SLOTS_SETTLE_SECONDS
    assert watch.note(2, 0.0) is None
    assert watch.note(0, 1.0) is None
    assert watch.note(2, 2.0) is None, "an executor was replaced"
    assert watch.note(1, 3.0) is None
    assert "links need 2" in (watch.note(1, 3.0 + lasting) or "")
    assert watch.note(1, 100.0) is None
    assert watch.note(2, 101.0) is None
    assert watch.note(2, 101.0 + lasting) == ""


def test_executors_are_waited_for_while_further_ones_appear() -> None:
    wait, stable = SlotWait(Need.of_links(2), 60.0), limits.EXECUTORS_STABLE_SECONDS
    assert not wait.is_over(0, 0.0)
    assert not wait.is_over(1, 30.0)
    assert not wait.is_over(1, 30.0 + stable), "too few for all links"
    assert not wait.is_over(2, 40.0)
    assert not wait.is_over(3, 41.0)
    assert not wait.is_over(3, 40.0 + stable)
    assert wait.is_over(3, 41.0 + stable)
    assert wait.is_over(4, 41.0), "enough"
    assert wait.is_over(0, 60.0), "too late"


def test_a_batch_job_starts_with_the_executors_of_the_first_seconds() -> None:
    wait = SlotWait(ANY, 60.0)
    assert not wait.is_over(1_000, 0.0)
    assert wait.is_over(1_000, limits.EXECUTORS_STABLE_SECONDS)


def test_slots_are_looked_at_from_time_to_time() -> None:
    watch = SlotWatch(Need.of_links(1))
    looks = [now for now in range(12) if watch.is_due(float(now))]
    assert looks == [0, 5, 10]


def test_each_target_is_first_in_some_lease() -> None:
    assert [rotated(["a", "b", "c"], lease)[0] for lease in range(6, 10)] == ["a", "b", "c", "a"]
    assert rotated(["a", "b", "c"], 1) == ["b", "c", "a"]


def test_a_task_that_waited_beyond_its_lease_ends_at_once() -> None:
    clusters = tuple(ClusterAddress(name, "", "") for name in ("a", "b"))
    options = ReplicationOptions(clusters)
    assert list(LeaseStreamReader(options).read(TargetPartition(Assignment("a", 1), options))) == []
