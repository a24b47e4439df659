"""The guide to security, on three machines with one pipeline."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.guides.machine import Machine
from tests.guides.page import ROOT, guide

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("ewr", "jfk", "lga")


def test_the_settings_in_the_guide_are_those_of_the_file() -> None:
    (shown,) = [block for block in guide("security").section("Configure the brokers") if block.language == "properties"]
    lines = (ROOT / "deploy" / "systemd" / "secure.conf").read_text(encoding="utf-8").splitlines()
    assert shown.text.splitlines() == [line for line in lines if not line.startswith("#")]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_guide_leads_to_three_secured_clusters(tmp_path: Path) -> None:
    page = guide("security")
    with ExitStack() as stack:
        machines = {name: stack.enter_context(Machine(tmp_path / name)) for name in NAMES}
        hosts = {f"broker.{name}.example": machine for name, machine in machines.items()}
        shells = {name: stack.enter_context(machine.shell(hosts, name)) for name, machine in machines.items()}
        operator = shells["ewr"]
        for shell in shells.values():
            shell.follow(guide("one-broker").section("Configure"))
            shell.follow(page.section("Three clusters in ten minutes"))
        operator.follow(page.section("Make keys, certificates and tokens"))
        for name in NAMES[1:]:
            shutil.copytree(machines["ewr"].directory / "keys", machines[name].directory / "keys")
        for shell in shells.values():
            shell.follow(page.section("Configure the brokers"))
        for heading in ("Register the clusters", "Start the pipeline", "Grant what a role needs"):
            operator.follow(page.section(heading))
