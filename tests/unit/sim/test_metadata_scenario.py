from __future__ import annotations

from magnetar.sim.metasync.run import ACTION_GROUPS
from magnetar.sim.metasync.scenario import LOSSY, draw


def test_a_seed_draws_the_same_scenario_again_and_says_what_it_is() -> None:
    drawn = [draw(seed, ACTION_GROUPS) for seed in range(300)]
    assert drawn == [draw(seed, ACTION_GROUPS) for seed in range(300)]
    assert {feature for each in drawn for feature in each.features()} == set(drawn[0].all_features)
    assert any("lga joins" in str(each) for each in drawn)


def test_the_drawn_numbers_of_clusters_and_steps_give_the_same_scenario_if_they_are_given() -> None:
    """The command in a verdict names both."""
    for seed in range(300):
        drawn = draw(seed, ACTION_GROUPS)
        assert draw(seed, ACTION_GROUPS, clusters=len(drawn.members), steps=drawn.steps) == drawn


def test_events_are_lost_only_in_worlds_with_snapshots() -> None:
    for seed in range(300):
        scenario = draw(seed, ACTION_GROUPS, clusters=2, steps=7)
        assert (scenario.members, scenario.steps) == (("ewr", "jfk"), 7)
        is_lossy = not scenario.sync or any(name.startswith(LOSSY) for name, _ in scenario.weights)
        assert scenario.snapshot_s or (not is_lossy and scenario.clusters == scenario.members)
