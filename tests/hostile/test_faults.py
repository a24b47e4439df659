"""Faults of disk, clock and process under traffic, each with a broker and a well-behaved client of its own."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.hostile.attacker import Attackers
from tests.hostile.catalogue import BEHAVIOURS
from tests.hostile.observation import observe, require_nothing_left, require_undisturbed
from tests.hostile.stage import Stage
from tests.hostile.victim import DESCRIPTORS_MAX, SETTINGS, delete_namespace, make_place
from tests.kit.faulty_broker import Faults, FaultyBroker
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.hostile.catalogue import Place
    from tests.hostile.table import Row

FAULT_S = 3.0
"""Duration of a fault."""

BACK_MS = 12_000.0
"""Milliseconds after a fault within which clients come back: the longest pause of the official client is 10 s or so."""

SHUTDOWN_TIMEOUT_S = 20.0
FLOOD = BEHAVIOURS["publishing-flood"]
HOUR_S = 3600.0

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault has at hand."""

    broker: FaultyBroker
    place: Place
    directory: Path

    def flood(self) -> Attackers:
        """Begin to publish as much as the broker takes."""
        return Attackers(FLOOD, self.place, self.directory)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    text: str
    cause: Callable[[Scene], None]
    expected_gap_ms: float
    """Gap that the fault makes by itself."""
    repeats: bool = False
    """Whether messages come again whose acknowledgement or receipt was under way: the process ends, or the topic is
    loaded again."""


def _for_a_while(scene: Scene, faults: Faults) -> None:
    scene.broker.set(faults)
    time.sleep(FAULT_S)
    scene.broker.set(Faults())
    wait_until(scene.broker.rest.is_healthy, what="healthy again", interval_s=0.1)
    time.sleep(1.0)


def _full_disk(scene: Scene) -> None:
    _for_a_while(scene, Faults(is_full=True))


def _full_disk_in_flood(scene: Scene) -> None:
    attackers = scene.flood()
    time.sleep(1.0)
    _for_a_while(scene, Faults(is_full=True))
    attackers.kill()


def _failed_sync(scene: Scene) -> None:
    scene.broker.set(Faults(fail_syncs=True))
    wait_until(lambda: not scene.broker.rest.is_healthy(), what="the failure is noticed", interval_s=0.1)
    scene.broker.stop()
    scene.broker.start()
    time.sleep(1.0)


def _slow_disk(scene: Scene) -> None:
    _for_a_while(scene, Faults(sync_s=0.05))


def _slow_disk_in_flood(scene: Scene) -> None:
    attackers = scene.flood()
    _for_a_while(scene, Faults(sync_s=0.05))
    attackers.kill()


def _disk_that_hangs(scene: Scene) -> None:
    _for_a_while(scene, Faults(sync_s=FAULT_S))


def _stopped_broker(scene: Scene) -> None:
    scene.broker.freeze()
    time.sleep(FAULT_S)
    scene.broker.thaw()
    time.sleep(1.0)


def _stopped_broker_in_flood(scene: Scene) -> None:
    attackers = scene.flood()
    time.sleep(1.0)
    _stopped_broker(scene)
    attackers.kill()


def _clock_jumps(scene: Scene) -> None:
    for offset_s in (HOUR_S, -HOUR_S, 24 * 365 * 10 * HOUR_S, -24 * 365 * HOUR_S):
        scene.broker.set(Faults(clock_offset_s=offset_s))
        time.sleep(1.0)
    scene.broker.set(Faults())
    time.sleep(1.0)


def _terminated_in_flood(scene: Scene) -> None:
    attackers = scene.flood()
    time.sleep(2.0)
    process = scene.broker.process
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.exit_status is not None, SHUTDOWN_TIMEOUT_S, what="end after SIGTERM")
    assert process.exit_status == 0
    scene.broker.start()
    attackers.kill()
    time.sleep(1.0)


def _killed_in_flood(scene: Scene) -> None:
    attackers = scene.flood()
    time.sleep(2.0)
    scene.broker.restart()
    attackers.kill()
    time.sleep(1.0)


def _killed_again_and_again(scene: Scene) -> None:
    attackers = scene.flood()
    for _ in range(5):
        time.sleep(0.5)
        scene.broker.restart()
    attackers.kill()
    time.sleep(1.0)


FAULTS = {
    "fault-full-disk": Fault("The disk is full for 3 s.", _full_disk, FAULT_S * 1000 + BACK_MS, repeats=True),
    "fault-full-disk-in-flood": Fault(
        "The disk is full for 3 s, in a flood.", _full_disk_in_flood, FAULT_S * 1000 + BACK_MS, repeats=True
    ),
    "fault-failed-sync": Fault(
        "A sync of the log fails, and the broker is started again.", _failed_sync, BACK_MS, repeats=True
    ),
    "fault-slow-disk": Fault("Each sync takes 50 ms longer.", _slow_disk, 100.0),
    "fault-slow-disk-in-flood": Fault("Each sync takes 50 ms longer, in a flood.", _slow_disk_in_flood, 200.0),
    "fault-disk-that-hangs": Fault("A sync takes 3 s.", _disk_that_hangs, 3 * FAULT_S * 1000),
    "fault-stopped-broker": Fault("SIGSTOP of the broker for 3 s.", _stopped_broker, FAULT_S * 1000),
    "fault-stopped-broker-in-flood": Fault(
        "SIGSTOP of the broker for 3 s, in a flood.", _stopped_broker_in_flood, FAULT_S * 1000
    ),
    "fault-clock-jumps": Fault("The wall clock jumps an hour and years, forth and back.", _clock_jumps, 0.0),
    "fault-terminated-in-flood": Fault(
        "SIGTERM in a flood, and a new start.", _terminated_in_flood, BACK_MS, repeats=True
    ),
    "fault-killed-in-flood": Fault("kill -9 in a flood, and a new start.", _killed_in_flood, BACK_MS, repeats=True),
    "fault-killed-again-and-again": Fault(
        "kill -9 five times in a flood.", _killed_again_and_again, 2 * BACK_MS, repeats=True
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, rows: list[Row], tmp_path: Path) -> None:
    fault = FAULTS[name]
    broker = FaultyBroker(tmp_path / "broker", settings=SETTINGS, descriptors_max=DESCRIPTORS_MAX)

    def cause() -> int:
        fault.cause(Scene(broker, place, tmp_path))
        return 1

    with Stage(broker, tmp_path) as stage:
        place = make_place(broker, name, {})
        row = observe(
            broker,
            stage.bystander,
            name,
            fault.text,
            cause,
            stage.baseline_gap_ms,
            clean_up=lambda: delete_namespace(broker, place.namespace),
            expected_gap_ms=fault.expected_gap_ms,
            repeats=fault.repeats,
        )
        rows.append(row)
        require_nothing_left(row)
        if not fault.repeats:
            assert row.account["repeated"] == 0
            assert row.account["is_in_order"]
        if not fault.expected_gap_ms:
            require_undisturbed(row)
