from __future__ import annotations

from magnetar.sim.actions import ACTION_GROUPS
from magnetar.sim.scenario import FEATURES, draw


def test_a_seed_draws_the_same_scenario_again_and_says_what_it_is() -> None:
    drawn = [draw(seed, ACTION_GROUPS) for seed in range(200)]
    assert drawn == [draw(seed, ACTION_GROUPS) for seed in range(200)]
    assert {feature for each in drawn for feature in each.features()} == set(FEATURES)
    assert str(drawn[0]).startswith("clusters ewr jfk")


def test_a_smaller_world_can_be_asked_for() -> None:
    for seed in range(100):
        scenario = draw(seed, ACTION_GROUPS, clusters=2, steps=7)
        assert (scenario.clusters, scenario.steps) == (("ewr", "jfk"), 7)
        assert scenario.lag is None or scenario.lag.copies == 1
