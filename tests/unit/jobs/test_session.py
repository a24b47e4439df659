"""The reason of a failed job."""

from __future__ import annotations

from magnetar.jobs.session import _reason


def test_the_error_of_a_task_has_its_hint_and_no_stacks() -> None:
    text = """An exception was thrown
  File "/x/rows.py", line 3, in read
magnetar.base.errors.DataLossError: t: 3 entries were deleted
hint: use retention
\tat org.apache.spark.Executor.run(Executor.scala:1)
"""
    assert _reason(text) == "t: 3 entries were deleted\nhint: use retention"


def test_an_error_without_a_hint_is_one_line() -> None:
    assert _reason("x\nmagnetar.base.errors.StorageError: full\n\tat y") == "full"
    assert _reason("Job aborted\n\tat y") == "Job aborted"
