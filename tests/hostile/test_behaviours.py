"""Each hostile behaviour against one broker: nothing is lost, nothing is left behind, nobody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hostile.attacker import attack
from tests.hostile.catalogue import BEHAVIOURS
from tests.hostile.observation import observe, require_nothing_left, require_undisturbed
from tests.hostile.victim import delete_namespace, make_place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.stage import Stage
    from tests.hostile.table import Row

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(name: str, stage: Stage, rows: list[Row], tmp_path: Path) -> None:
    behaviour = BEHAVIOURS[name]
    place = make_place(stage.broker, name, behaviour.policies)
    row = observe(
        stage.broker,
        stage.bystander,
        name,
        behaviour.text,
        lambda: attack(behaviour, place, tmp_path),
        stage.baseline_gap_ms,
        clean_up=lambda: delete_namespace(stage.broker, place.namespace),
    )
    rows.append(row)
    require_nothing_left(row)
    require_undisturbed(row)
