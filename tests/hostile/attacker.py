"""A process that attacks: ``python -m tests.hostile.attacker BEHAVIOUR PLACE…``.

It runs at a lower priority than the broker and the well-behaved client: what is measured is what the broker does, not
that the attacker takes the processor. It prints the number of hostile acts.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import TYPE_CHECKING

from tests.hostile import attacks
from tests.hostile.catalogue import BEHAVIOURS, Place, Target
from tests.kit.child import ChildProcess
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.hostile.catalogue import Behaviour

NICE = 10
"""Added to the nice value of an attacker."""

PATIENCE_S = 60.0
"""Seconds beyond its own duration after which an attacker is taken to hang."""

assert attacks.__all__, "importing the package registers the behaviours"


class Attackers:
    """The processes of one behaviour."""

    def __init__(self, behaviour: Behaviour, place: Place, directory: Path) -> None:
        """Start them."""
        self._behaviour = behaviour
        command = [sys.executable, "-m", "tests.hostile.attacker", behaviour.name, *place]
        self._processes = [
            ChildProcess(command, directory, f"attacker-{number}") for number in range(behaviour.processes)
        ]

    def wait(self) -> int:
        """Return the number of hostile acts once all have ended; raise RuntimeError when one failed."""
        wait_until(
            lambda: all(process.exit_status is not None for process in self._processes),
            self._behaviour.seconds + PATIENCE_S,
            what=f"end of {self._behaviour.name}",
            interval_s=0.05,
        )
        for process in self._processes:
            if process.exit_status != 0:
                message = f"{self._behaviour.name} failed:\n{process.log.read_text(errors='replace')[-3000:]}"
                raise RuntimeError(message)
        return sum(int(process.output.read_text()) for process in self._processes)

    def kill(self) -> None:
        """End those that still run."""
        for process in self._processes:
            process.kill()


def attack(behaviour: Behaviour, place: Place, directory: Path) -> int:
    """Let a behaviour attack from start to end; return the number of hostile acts."""
    attackers = Attackers(behaviour, place, directory)
    try:
        return attackers.wait()
    finally:
        attackers.kill()


def main(arguments: Sequence[str]) -> int:
    """Attack and return the exit status."""
    name, *place = arguments
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    behaviour = BEHAVIOURS[name]
    target = Target(Place(*place), time.monotonic() + behaviour.seconds)
    sys.stdout.write(f"{behaviour.attack(target)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
