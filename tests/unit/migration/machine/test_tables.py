"""Each event in each state: what the tables list is done, anything else is refused and changes nothing."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest

from magnetar.base.errors import MigrationStateError
from magnetar.migration.machine.effects import Effect, EffectKind
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    Record,
    Routed,
    StageMoved,
    SubscriptionsRemembered,
    TopicsClosed,
    TopicsFenced,
    TopicsMoved,
    TopicsReleased,
)
from magnetar.migration.machine.tables import (
    BACK,
    FORWARD,
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
    Way,
)

BEGUN = Begun("shop", "ewr", "jfk")
EU, US, ORDERS = "persistent://shop/orders/eu", "persistent://shop/orders/us", "shop/orders"


US_0, US_1 = f"{US}-partition-0", f"{US}-partition-1"


def in_stage(stage: Stage, differences: int | None = None) -> Migration:
    route = "jfk" if stage in (Stage.SWITCH, Stage.SWITCHED) else "ewr"
    return Migration(BEGUN, stage, differences=differences, is_listed=True, whole_route=route, is_tidy=True)


def record_of(event: TopicEvent, topics: tuple[str, ...]) -> Record:
    match event:
        case TopicEvent.REMEMBERED:
            return SubscriptionsRemembered({topic: {} for topic in topics})
        case TopicEvent.FENCED:
            return TopicsFenced({topic: {} for topic in topics})
        case TopicEvent.CLOSED:
            return TopicsClosed(dict.fromkeys(topics, 3))
        case TopicEvent.RELEASE | TopicEvent.EXPIRED:
            return TopicsReleased(event, topics, "it took too long")
    return TopicsMoved(event, topics)


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
        record = record_of(event, (EU, US))
        if (stage, state, event) == (Stage.ROLLBACK, FORWARD.start, TopicEvent.FENCE):
            refuses(migration, record, EU)  # unless another partition only goes forward
            continue
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


def test_a_rollback_releases_topics_that_can_stay_in_the_source() -> None:
    migration = in_stage(Stage.SWITCH)
    migration.topics = {state.value: state for state in (FORWARD.start, *FORWARD.between, FORWARD.end)}
    migration.released = {"settling": "it took too long"}
    expected = dict(migration.topics) | {state.value: FORWARD.releasing for state in FORWARD.revocable}
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    assert (migration.topics, migration.released) == (expected, {})


def test_the_ways_to_the_target_and_back_are_the_same() -> None:
    for way, stage in ((FORWARD, Stage.SWITCH), (BACK, Stage.ROLLBACK)):
        events = [TopicEvent.FENCE, TopicEvent.FENCED, TopicEvent.CLOSED, TopicEvent.DRAINED, TopicEvent.SEAL]
        migration = in_stage(stage)
        migration.topics = {EU: way.start}
        for event, following in zip([*events, TopicEvent.SEALED, TopicEvent.ROUTED], [*way[1:7], way.end], strict=True):
            migration.apply(record_of(event, (EU,)))
            assert migration.topics == {EU: following}


def test_nothing_is_released_once_its_fence_is_final() -> None:
    for way in (FORWARD, BACK):
        for event, states in (
            (TopicEvent.RELEASE, way.revocable),
            (TopicEvent.EXPIRED, (*way.revocable[1:], way.sealing)),
        ):
            assert {state for state, each in TOPICS if each is event} & {*way} == {*states}
        assert not {(way.sealed, each) for each in TopicEvent} & {*TOPICS} - {(way.sealed, TopicEvent.ROUTED)}


def with_partitions(way: Way, first: TopicState, second: TopicState) -> Migration:
    migration = in_stage(Stage.SWITCH if way is FORWARD else Stage.ROLLBACK)
    migration.topics = {EU: way.start, US_0: first, US_1: second}
    return migration


@pytest.mark.parametrize("way", [FORWARD, BACK])
def test_partitions_become_final_together(way: Way) -> None:
    for other in way:
        migration = with_partitions(way, way.drained, other)
        seal = TopicsMoved(TopicEvent.SEAL, (US_0,))
        if other in (way.drained, *way.committed, way.end):
            migration.apply(seal)
        else:
            refuses(migration, seal, US_1, other.value)


@pytest.mark.parametrize("way", [FORWARD, BACK])
def test_partitions_are_routed_together(way: Way) -> None:
    for other in {*way} - {way.end}:
        refuses(with_partitions(way, way.sealed, other), TopicsMoved(TopicEvent.ROUTED, (US_0,)), US_1, other.value)
    migration = with_partitions(way, way.sealed, way.sealed)
    migration.apply(TopicsMoved(TopicEvent.ROUTED, (US_0, US_1)))
    assert migration.topics == {EU: way.start, US_0: way.end, US_1: way.end}


@pytest.mark.parametrize("way", [FORWARD, BACK])
def test_no_partition_is_released_beside_one_that_only_goes_forward(way: Way) -> None:
    release = TopicsReleased(TopicEvent.RELEASE, (US_0,), "it took too long")
    for other in way.committed:
        migration = with_partitions(way, way.closed, other)
        refuses(migration, release, US_1, other.value)
        migration.apply(TopicsReleased(TopicEvent.EXPIRED, (US_0,), "it ended by itself"))
        migration.apply(TopicsMoved(TopicEvent.RELEASED, (US_0,)))
        migration.apply(TopicsMoved(TopicEvent.FENCE, (US_0,)))


def test_a_partition_beside_one_that_only_goes_forward_follows_it_in_a_rollback() -> None:
    migration = with_partitions(FORWARD, FORWARD.start, FORWARD.sealed)
    migration.topics[EU] = FORWARD.end
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    assert [(each.kind, each.names) for each in migration.due()] == [
        (EffectKind.BEGIN_SWITCH, (US_0,)),
        (EffectKind.BEGIN_RETURN, (EU,)),
        (EffectKind.ROUTE, (US_1,)),
    ]
    migration.apply(TopicsMoved(TopicEvent.FENCE, (US_0,)))
    migration.topics = {US_0: FORWARD.end, US_1: FORWARD.start}
    refuses(migration, TopicsMoved(TopicEvent.FENCE, (US_1,)), US_1)


def test_each_attempt_has_an_epoch_of_its_own_and_figures() -> None:
    migration = in_stage(Stage.SWITCH)
    migration.topics = {EU: FORWARD.start}
    for epoch in (1, 2):
        migration.apply(TopicsMoved(TopicEvent.FENCE, (EU,)))
        assert (migration.epochs, migration.released) == ({EU: epoch}, {})
        migration.apply(TopicsFenced({EU: {"billing": False}}))
        migration.apply(TopicsClosed({EU: epoch}))
        migration.apply(TopicsReleased(TopicEvent.RELEASE, (EU,), "it took too long"))
        migration.apply(TopicsMoved(TopicEvent.RELEASED, (EU,)))
        assert migration.released == {EU: "it took too long"}
    assert migration.unacknowledged == {EU: 2}
    assert migration.replicated_before == {EU: {"billing": False}}, "the way back changes the settings, too"


def test_events_with_more_to_say_have_records_of_their_own() -> None:
    for event in (TopicEvent.REMEMBERED, TopicEvent.FENCED, TopicEvent.CLOSED, TopicEvent.RELEASE, TopicEvent.EXPIRED):
        refuses(in_stage(Stage.SWITCH), TopicsMoved(event, ()), "record of its own")
    refuses(in_stage(Stage.SWITCH), TopicsReleased(TopicEvent.ROUTED, (), ""), "has no reason")


def test_a_switch_begins_and_ends_with_one_route() -> None:
    migration = in_stage(Stage.READY, differences=0)
    migration.topics = {EU: FORWARD.start}
    migration.apply(StageMoved(StageEvent.SWITCH))
    assert migration.due() == [Effect(EffectKind.ROUTE_ALL, ("ewr",))]
    refuses(migration, Routed("jfk"), "no route for everything to jfk")
    migration.apply(Routed("ewr"))
    assert migration.due() == [Effect(EffectKind.BEGIN_SWITCH, (EU,))]
    migration.topics = {EU: FORWARD.end}
    assert migration.due() == [Effect(EffectKind.LIST)]
    refuses(migration, StageMoved(StageEvent.SWITCHED), "look for topics")
    migration.apply(Found((US,)))
    assert migration.due() == [Effect(EffectKind.BEGIN_SWITCH, (US,))], "it was created meanwhile"
    migration.topics[US] = FORWARD.end
    migration.apply(Found())
    assert migration.due() == [Effect(EffectKind.ROUTE_ALL, ("jfk",))]
    refuses(migration, StageMoved(StageEvent.SWITCHED), "one route")
    migration.apply(Routed("jfk"))
    assert migration.completion() == StageMoved(StageEvent.SWITCHED)


def test_a_rollback_ends_with_one_route() -> None:
    migration = in_stage(Stage.SWITCHED)
    migration.topics = {EU: BACK.start}
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    assert migration.due() == [Effect(EffectKind.BEGIN_RETURN, (EU,))]
    migration.topics = {EU: BACK.end}
    migration.apply(Found((US,)))
    assert migration.due() == [Effect(EffectKind.BEGIN_RETURN, (US,))], "it was created in the target"
    migration.topics[US] = BACK.end
    migration.apply(Found())
    migration.apply(Routed("ewr"))
    assert migration.completion() == StageMoved(StageEvent.RETURNED)


def test_a_rollback_before_the_last_route_of_a_switch_has_no_topics_to_look_for() -> None:
    migration = in_stage(Stage.SWITCH)
    migration.topics = {EU: BACK.start}
    migration.is_listed, migration.whole_route = False, "ewr"
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    migration.topics = {EU: BACK.end}
    assert migration.due() == [Effect(EffectKind.ROUTE_ALL, ("ewr",))], "new topics are in the source"


def test_a_rollback_first_ends_the_change_of_the_last_route() -> None:
    migration = in_stage(Stage.SWITCH)
    migration.topics = {EU: BACK.start}
    migration.whole_route = "ewr"
    assert migration.due() == [Effect(EffectKind.ROUTE_ALL, ("jfk",))]
    migration.apply(StageMoved(StageEvent.ROLL_BACK))
    assert migration.due() == [Effect(EffectKind.ROUTE_ALL, ("jfk",))], "it may have been changed already"
    migration.apply(Routed("jfk"))
    assert migration.due() == [Effect(EffectKind.BEGIN_RETURN, (EU,))]
    migration.topics = {EU: BACK.end}
    assert migration.due() == [Effect(EffectKind.LIST)], "new topics are in the target"


def test_namespaces_are_not_found_by_a_switch() -> None:
    refuses(in_stage(Stage.SWITCH), Found((), (ORDERS,)), "'metadata', not 'switch'")
