"""Each event in each state: what the tables list is done, anything else is refused and changes nothing."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest

from magnetar.base.errors import MigrationStateError
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    Record,
    StageMoved,
    SubscriptionsRemembered,
    TopicsMoved,
)
from magnetar.migration.machine.tables import (
    PLACES,
    REQUIRED_PLACES,
    REQUIRED_TOPICS,
    STAGES,
    TOPICS,
    PlaceEvent,
    PlaceState,
    Stage,
    StageEvent,
    TopicEvent,
    TopicState,
)

BEGUN = Begun("shop", "ewr", "jfk")
EU, US, ORDERS = "persistent://shop/orders/eu", "persistent://shop/orders/us", "shop/orders"


def in_stage(stage: Stage, differences: int | None = None) -> Migration:
    return Migration(BEGUN, stage, differences=differences)


def refuses(migration: Migration, record: Record, *words: str) -> None:
    before = deepcopy(migration)
    with pytest.raises(MigrationStateError) as raised:
        migration.apply(record)
    assert migration == before
    for word in words:
        assert word in str(raised.value)


def stage_moved(event: StageEvent) -> StageMoved:
    return StageMoved(event, 0 if event is StageEvent.VERIFIED else None)


def test_events_of_the_migration() -> None:
    for stage, event in product(Stage, StageEvent):
        check_stage_event(stage, event)


def check_stage_event(stage: Stage, event: StageEvent) -> None:
    migration = in_stage(stage, differences=0)
    following = STAGES.get((stage, event))
    if following is None:
        refuses(migration, stage_moved(event), stage.value, event.value)
    else:
        migration.apply(stage_moved(event))
        assert migration.stage is following


def test_events_of_topics() -> None:
    for stage, state, event in product(Stage, TopicState, TopicEvent):
        migration = in_stage(stage)
        migration.topics = {EU: state, US: state}
        remembered = SubscriptionsRemembered({EU: {}, US: {}})
        record = remembered if event is TopicEvent.REMEMBERED else TopicsMoved(event, (EU, US))
        following, stages = TOPICS.get((state, event), (None, frozenset[Stage]()))
        if following is None or stage not in stages:
            refuses(migration, record, EU, state.value, event.value, stage.value)
        else:
            migration.apply(record)
            assert migration.topics == {EU: following, US: following}


def test_events_of_places() -> None:
    for stage, state, event in product(Stage, PlaceState, PlaceEvent):
        migration = in_stage(stage)
        migration.places = {ORDERS: state}
        record = PlaceMoved(event, ORDERS, ("ewr",) if event is PlaceEvent.REMEMBERED else None)
        following, stages = PLACES.get((state, event), (None, frozenset[Stage]()))
        if following is None or stage not in stages:
            refuses(migration, record, ORDERS, state.value, event.value, stage.value)
        else:
            migration.apply(record)
            assert migration.places == {ORDERS: following}


def test_some_topics_are_not_moved_if_one_cannot_be() -> None:
    migration = in_stage(Stage.DATA)
    migration.topics = {EU: TopicState.CREATED, US: TopicState.CARRIED}
    refuses(migration, TopicsMoved(TopicEvent.CARRIED, (EU, US)), US, "carried")
    refuses(migration, TopicsMoved(TopicEvent.CARRIED, ("persistent://shop/orders/other",)), "not known")


@pytest.mark.parametrize("event", REQUIRED_TOPICS)
def test_a_stage_ends_when_all_topics_have_come_far_enough(event: StageEvent) -> None:
    (stage,) = (stage for stage, each in STAGES if each is event)
    for state in TopicState:
        migration = in_stage(stage)
        migration.topics = {EU: state}
        if state in REQUIRED_TOPICS[event]:
            migration.apply(StageMoved(event))
        else:
            refuses(migration, StageMoved(event), EU, state.value)


@pytest.mark.parametrize("event", REQUIRED_PLACES)
def test_a_stage_ends_when_all_places_have_come_far_enough(event: StageEvent) -> None:
    (stage,) = (stage for stage, each in STAGES if each is event)
    for state in PlaceState:
        migration = in_stage(stage)
        migration.places = {ORDERS: state}
        if state in REQUIRED_PLACES[event]:
            migration.apply(StageMoved(event))
        else:
            refuses(migration, StageMoved(event), ORDERS, state.value)


def test_nothing_switches_unverified() -> None:
    refuses(in_stage(Stage.READY), StageMoved(StageEvent.SWITCH), "was not verified", "hint: magnetar migrate verify")
    refuses(in_stage(Stage.READY, differences=3), StageMoved(StageEvent.SWITCH), "3 differences")
    verified = in_stage(Stage.READY)
    verified.apply(StageMoved(StageEvent.VERIFIED, 0))
    verified.apply(StageMoved(StageEvent.LOOK_AGAIN))
    assert verified.differences is None, "new topics were not verified"


def test_a_result_belongs_to_a_verification_only() -> None:
    refuses(in_stage(Stage.READY), StageMoved(StageEvent.VERIFIED), "'verified' with the result None")
    refuses(in_stage(Stage.METADATA), StageMoved(StageEvent.METADATA_COPIED, 0), "with the result 0")


def test_clusters_are_remembered_once() -> None:
    migration = in_stage(Stage.DATA)
    migration.places = {ORDERS: PlaceState.FOUND}
    refuses(migration, PlaceMoved(PlaceEvent.REMEMBERED, ORDERS), ORDERS)
    migration.apply(PlaceMoved(PlaceEvent.REMEMBERED, ORDERS, ("ewr",)))
    refuses(migration, PlaceMoved(PlaceEvent.LINKED, ORDERS, ("ewr",)), ORDERS)
    refuses(migration, PlaceMoved(PlaceEvent.REMEMBERED, ORDERS, ("ewr", "jfk")), ORDERS)


def test_the_first_setting_of_a_subscription_is_that_before_the_migration() -> None:
    migration = in_stage(Stage.PROGRESS)
    migration.topics = {EU: TopicState.CARRIED}
    migration.apply(SubscriptionsRemembered({EU: {"billing": False}}))
    migration.apply(TopicsMoved(TopicEvent.REPLICATED, (EU,)))
    migration.apply(SubscriptionsRemembered({EU: {"billing": True, "new": False}}))
    assert migration.replicated_before == {EU: {"billing": False, "new": False}}


def test_topics_are_found_once_and_early() -> None:
    migration = in_stage(Stage.METADATA)
    migration.apply(Found((EU,), (ORDERS,)))
    refuses(migration, Found((EU,)), EU, "was found before")
    refuses(migration, Found((), (ORDERS,)), ORDERS, "was found before")
    refuses(in_stage(Stage.DATA), Found((EU,)), "'metadata', not 'data'")


def test_no_topic_is_deleted_while_links_are_open() -> None:
    migration = in_stage(Stage.CLEANUP)
    migration.topics = {EU: TopicState.RESTORED}
    migration.places = {ORDERS: PlaceState.LINKED}
    refuses(migration, TopicsMoved(TopicEvent.DELETED, (EU,)), EU, "links are open")


def test_a_migration_begins_once_and_first() -> None:
    refuses(Migration(), StageMoved(StageEvent.ABANDON), "has not begun")
    refuses(in_stage(Stage.READY), BEGUN, "has begun")


def test_topics_whose_clients_were_not_sent_away_are_released_by_a_rollback() -> None:
    migration = in_stage(Stage.SWITCH)
    states = (TopicState.AGREED, TopicState.FENCING, TopicState.FENCED, TopicState.DRAINED, TopicState.SWITCHED)
    migration.topics = {state.value: state for state in states}
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    assert migration.topics == {
        "agreed": TopicState.AGREED,
        "fencing": TopicState.RELEASING,
        "fenced": TopicState.RELEASING,
        "drained": TopicState.DRAINED,
        "switched": TopicState.SWITCHED,
    }
