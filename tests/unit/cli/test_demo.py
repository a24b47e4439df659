"""The options of ``magnetar demo``."""

from __future__ import annotations

import pytest

from magnetar.cli.main import ExitCode, main


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("demo migrate --flights 2000", "--flights"),
        ("demo migrate --keep", "--keep"),
        ("demo failover --topics 3", "--topics"),
        ("demo --rate 5", "--rate"),
    ],
)
def test_an_option_of_the_other_story_is_refused(line: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) is ExitCode.USAGE
    assert f"{option} has no effect on the story" in capsys.readouterr().err
