from __future__ import annotations

import errno
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.rotated_output import RETRY_SECONDS
from magnetar.broker.audit import file
from magnetar.broker.audit.file import AuditFile, AuditWriter

if TYPE_CHECKING:
    from pathlib import Path


class FullDisk:
    """A stream that writes half of what it gets once the disk is full."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a text stream
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the stream
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        self._stream.write(text[: len(text) // 2])
        self._stream.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write(to: AuditFile, text: str) -> None:
    to.handle(logging.makeLogRecord({"msg": text}))


def test_a_full_disk_costs_lines_that_are_counted_and_leaves_no_half_ones(tmp_path: Path) -> None:
    now, path = 0.0, tmp_path / "audit.log"
    found = AuditFile(str(path), 1 << 20, 2, lambda: now)
    write(found, "first")
    with capture_logs() as lines:
        for _ in range(3):
            assert found.stream is not None or found.error is not None
            found.stream = FullDisk(found.stream or found._open())  # type: ignore[assignment]
            write(found, "lost line")
        assert (found.lost, str(found.error), path.read_text()) == (3, "[Errno 28] No space left on device", "first\n")
        assert [(line["event"], line["lost"]) for line in lines] == [("audit_log_not_written", 1)]
        now = RETRY_SECONDS
        found.stream = FullDisk(found._open())  # type: ignore[assignment]
        write(found, "lost line")
        write(found, "second")
    assert [line["event"] for line in lines[1:]] == ["audit_log_not_written", "audit_log_written_again"]
    assert (found.error, path.read_text()) == (None, "first\nsecond\n")
    found.close()


def test_the_file_is_rotated_also_after_lines_were_lost(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    found = AuditFile(str(path), 100, 1)
    for number in range(10):
        if number == 5:
            found.stream = FullDisk(found.stream)  # type: ignore[assignment]
        write(found, f"{number} {'x' * 40}")
    found.close()
    texts = [(tmp_path / name).read_text() for name in ("audit.log.1", "audit.log")]
    assert [line[0] for line in "".join(texts).splitlines()] == ["7", "8", "9"]
    assert len(list(tmp_path.iterdir())) == 2


def test_others_cannot_read_the_file(tmp_path: Path) -> None:
    writer = AuditWriter(str(tmp_path / "audit.log"), 1 << 20, 2)
    assert writer.write("a")
    assert writer.write("b")
    writer.close()
    assert (tmp_path / "audit.log").read_text() == "a\nb\n"
    assert (tmp_path / "audit.log").stat().st_mode & 0o007 == 0
    assert (writer.lost, writer.is_failing) == (0, False)


def test_lines_beyond_those_that_may_wait_are_lost_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "LINES_WAITING_MAX", 2)
    is_stuck = threading.Event()
    handle = AuditFile.handle

    def slow(self: AuditFile, record: logging.LogRecord) -> Any:  # noqa: ANN401 - as the standard library
        is_stuck.wait()
        return handle(self, record)

    monkeypatch.setattr(AuditFile, "handle", slow)
    writer = AuditWriter(str(tmp_path / "audit.log"), 1 << 20, 2)
    accepted = sum(writer.write(str(number)) for number in range(20))
    assert accepted in (2, 3)  # one may be at the disk already
    assert writer.lost == 20 - accepted
    is_stuck.set()
    writer.close()
    assert len((tmp_path / "audit.log").read_text().splitlines()) == accepted


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot write auditLogFile .*/absent/a: No such file .*\nhint: name"):
        AuditWriter(str(tmp_path / "absent" / "a"), 1 << 20, 2)
