from __future__ import annotations

import os
from typing import TYPE_CHECKING

from magnetar.base.logs.rotated_output import FILE_SIZE_MAX, FILES_KEPT, RotatedOutput
from magnetar.broker.settings.sections.log import LogSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_limits_are_those_of_a_broker() -> None:
    settings = LogSettings()
    assert (settings.logFileMaxMB << 20, settings.logFilesKept) == (FILE_SIZE_MAX, FILES_KEPT)


def test_lines_are_appended_whole_and_old_files_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text("old\n")
    output = RotatedOutput(file, size_max=100, kept=2)
    for number in range(30):
        os.write(output.sink, b"line %d\nli" % number + b"ne\n")
    os.write(output.sink, b"\xff the end")
    output.close()
    output.drain(10)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2"]
    kept = "".join((tmp_path / name).read_text() for name in ("x.log.2", "x.log.1", "x.log"))
    lines = [line for number in range(30) for line in (f"line {number}", "line")]
    assert kept.splitlines()[-1] == "\ufffd the end"
    assert kept.splitlines()[:-1] == lines[-(len(kept.splitlines()) - 1) :]
    assert all(len((tmp_path / name).read_text()) <= 100 for name in ("x.log", "x.log.1", "x.log.2"))
