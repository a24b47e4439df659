"""No attack: what the well-behaved client experiences on this machine by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.hostile.catalogue import behaviour

if TYPE_CHECKING:
    from tests.hostile.catalogue import Target


@behaviour("Nobody attacks.", seconds=10.0)
def nobody(target: Target) -> int:
    time.sleep(target.seconds_left)
    return 1


@behaviour("An attacker burns as much processor time as it gets and speaks to nobody.", seconds=10.0)
def burnt_processor_time(target: Target) -> int:
    turns = 0
    while target.is_time_left:
        turns += 1
    return turns
