"""Clusters keep their promises in simulations, and equal seeds give equal runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import pytest

from magnetar.sim.checks.lifetimes import Lifetimes
from magnetar.sim.metasync.run import judge as judge_metadata
from magnetar.sim.run import judge, simulate

FINGERPRINT = "from {} import judge; print(judge(7, steps=60).fingerprint)"


@pytest.mark.parametrize("seed", range(5))
def test_nothing_that_was_promised_is_broken(seed: int) -> None:
    verdict = judge(seed)
    assert not verdict.violation, verdict.command


@pytest.mark.parametrize("seed", range(3))
def test_metadata_agree_with_the_oracle(seed: int) -> None:
    verdict = judge_metadata(seed)
    assert not verdict.violation, verdict.command


def test_a_tenant_that_was_deleted_and_created_elsewhere_has_the_clusters_of_its_creation() -> None:
    """In this run a cluster takes both at once, over edits of its own."""
    verdict = judge_metadata(636)
    assert not verdict.violation, verdict.command


def test_a_message_that_is_refused_for_long_makes_no_flood() -> None:
    """In this run a producer moved to a cluster that refuses one of its messages, and resends all of them."""
    assert judge(6758).entries < 10_000


@pytest.mark.parametrize("run", ["magnetar.sim.run", "magnetar.sim.metasync.run"])
def test_the_same_seed_is_the_same_run_in_every_process(run: str) -> None:
    fingerprints = {import_module(run).judge(7, steps=60).fingerprint}
    for hash_seed in ("1", "4711"):
        finished = subprocess.run(
            [sys.executable, "-c", FINGERPRINT.format(run)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        )
        fingerprints.add(finished.stdout.strip())
    assert len(fingerprints) == 1


def test_another_seed_is_another_run() -> None:
    assert judge(1, steps=5).fingerprint != judge(2, steps=5).fingerprint


def test_an_exception_in_a_check_is_the_violation_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(Lifetimes, "look_at", look)
    assert judge(1, steps=5).violation.startswith("LookupError() in look, line ")


def test_a_run_can_be_told_and_drawn() -> None:
    verdict, trace = simulate(3, clusters=3, steps=20)
    lines, drawn = list(trace.lines()), list(trace.diagram())
    assert verdict.clusters == 3
    assert any("publishes" in line for line in lines)
    assert drawn[0] == "sequenceDiagram"
    assert any(line.strip().startswith("ewr->>") for line in drawn)
    assert len(drawn) > len(lines)
