from __future__ import annotations

import json

import pytest

from magnetar.cli.main import ExitCode, main
from magnetar.sim import run
from magnetar.sim.run import Verdict


def test_one_seed_can_be_run_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "5", "--steps", "40", "--story", "--output", "json"]) == ExitCode.DONE
    story, _, verdict = capsys.readouterr().out.partition("{")
    assert "publishes" in story
    told = json.loads("{" + verdict)
    assert told["command"] == f"magnetar simulate --seed 5 --clusters {told['clusters']} --steps 40 --story"
    assert told["world"].startswith("clusters ewr jfk")
    assert {"publish", "crash"} <= told["counts"].keys()


def test_worlds_of_metadata_are_another_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--metadata", "--seed", "5", "--steps", "9", "--output", "json"]) == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["command"] == f"magnetar simulate --metadata --seed 5 --clusters {told['clusters']} --steps 9 --story"
    assert {"policies changed", "hostile event published"} <= told["counts"].keys()


def test_a_violation_is_printed_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(seed: int, clusters: int | None, steps: int | None) -> Verdict:
        violation = "P1: lost" if seed == 8 else ""
        counts = (("crash", seed), ("seek", 0))
        return Verdict(seed, clusters or 3, steps or 9, violation, "", 0, 0, 0.0, "one topic", counts)

    monkeypatch.setattr(run, "judge", judged)
    assert main(["simulate", "--seeds", "7:10", "--steps", "4", "-o", "json"]) == ExitCode.FAILED
    assert json.loads(capsys.readouterr().err)["note"].startswith("seed 8: P1: lost")
    assert main(["simulate", "--seeds", "7:10", "--steps", "4"]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert "seed 8: P1: lost" in captured.err
    assert "magnetar simulate --seed 8 --clusters 3 --steps 4 --story" in captured.err
    assert "one topic" in captured.err
    counted, _, table = captured.out.partition("event or state")
    assert counted.split() == ["seeds", "3", "broken", "1"]
    assert table.split() == ["worlds", "times", "seek", "0", "0", "never", "crash", "3", "24"]


@pytest.mark.parametrize("seeds", ["7", "7:7", "9:7", "a:b"])
def test_a_range_that_is_none_is_refused(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", seeds]) == ExitCode.FAILED
    assert "FROM:TO" in capsys.readouterr().err
