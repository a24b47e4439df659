"""A cluster that lost its data and reuses ledger ids is refused before its entries are confused with earlier ones."""

from __future__ import annotations

from magnetar.base.errors import ServerError
from magnetar.base.life import Life
from magnetar.base.position import Position
from magnetar.broker.replication.lives import lives_to_name
from magnetar.broker.replication.subscription_updates import SubscriptionUpdates
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.geo.snapshots.claims import UpdateClaims
from magnetar.geo.snapshots.markers import SubscriptionUpdate
from magnetar.sim.cluster import Cluster
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.links import LIFE_METADATA, PROGRESS_PREFIX


def source(loop: HandLoop, identity: str, first_ledger_id: int) -> Cluster:
    """Return the cluster ewr with an empty disk."""
    made = Cluster("ewr", targets=["jfk"], loop=loop)
    made.store.ids.begin_at(first_ledger_id)
    made.store.life = Life(identity, first_ledger_id)
    return made


def carry(made: Cluster, target: Cluster, *texts: str, lease: int = 0) -> Pipe:
    """Publish in a source, and carry as much as the target accepts."""
    publisher = made.client()
    publisher.produce()
    publisher.send(*texts)
    pipe = Pipe(made, target, lease)
    pipe.attach(seek=False, permits=1000)
    return pipe


def told(target: Cluster, name: str, life: str) -> list[tuple[int, str]]:
    """Return the target's error responses to a link's producer that names ``life``."""
    client = target.client()
    client.produce(name=name, epoch=9, metadata=commands.key_values({LIFE_METADATA: life}))
    return [(error.error, error.message) for error in client.take("ERROR")]


def test_entries_of_another_life_are_not_taken_for_entries_that_are_held() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "first", 5000), target, "a", "b", "c").run()
    assert read_all(target) == ["a", "b", "c"]
    rebuilt = source(loop, "second", 4000)  # its clock is behind
    pipe = carry(rebuilt, target, "d", "e", lease=1)
    (error,) = pipe.writer.take("ERROR")
    assert error.error == ServerError.NotAllowedError
    newest = target.topic().log.index.last_position("ewr")
    assert newest is not None
    assert "cluster ewr is refused: it lost its data and gives ledger ids from 4000 on again" in error.message
    assert f"firstLedgerId={newest.ledger_id + 1}" in error.message
    assert not pipe.writer.take("PRODUCER_SUCCESS")
    assert read_all(target) == ["a", "b", "c"]


def test_another_life_with_higher_ids_is_taken_and_stays_known_after_a_restart() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "first", 5000), target, "a", "b").run()
    carry(source(loop, "second", 6000), target, "c", lease=1).run()
    assert read_all(target) == ["a", "b", "c"]
    target.crash()
    assert told(target, "pulsar.repl.ewr-->jfk", "second@6000") == []
    assert told(target, "pulsar.repl.ewr-->jfk", "first@5000")
    assert told(target, "pulsar.repl.ewr-->jfk", "third@7000") == []


def test_progress_of_another_life_acknowledges_nothing_of_the_first_one() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "first", 5000), target, "a", "b").run()
    ((code, message),) = told(target, f"{PROGRESS_PREFIX}ewr", "second@4000")
    assert code == ServerError.NotAllowedError
    assert "firstLedgerId" in message


def test_positions_that_are_known_from_progress_alone_count() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "first", 5000), target, "a").run()
    client = target.client()
    client.subscribe(subscription="s", replicate_subscription_state=True)
    progress = target.subscription("s").progress
    assert progress is not None
    progress.state.origin("ewr").acknowledge(Position(8000, -1), Position(8000, 3))
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000")
    assert told(target, "pulsar.repl.ewr-->jfk", "second@8001") == []


def progress(target: Cluster, source: str, newest: Position, **lives: str) -> str:
    """Return the target's response to progress of ``source`` that acknowledges ewr's entries up to ``newest``."""
    state = SubscriptionProgress("s")
    state.origin("ewr").acknowledge(Position(newest.ledger_id, -1), newest)
    (payload,) = encode_markers(source, [state], lives=lives)
    keeper, refusals = target.topic().progress, list[str]()
    target.do(lambda: keeper.receive(source, payload, lambda _: None, lambda error: refusals.append(str(error))))
    return "".join(refusals)


def taught(*, life: str) -> Cluster:
    """Return a cluster with entries of ewr from ledger 5000."""
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr", "lga"], loop=loop)
    carry(source(loop, life, 5000), target, "a").run()
    return target


def test_a_new_life_that_a_third_cluster_knows_first_is_taken_when_it_comes_itself() -> None:
    target = taught(life="first")
    assert progress(target, "lga", Position(7000, 3), ewr="second@7000") == ""
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000") == []
    target.crash()
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000") == []


def test_a_third_cluster_that_knows_only_the_earlier_life_is_listened_to() -> None:
    target = taught(life="first")
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000") == []
    assert progress(target, "lga", Position(5000, 0), ewr="first@5000") == ""
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000") == []


def test_a_third_cluster_does_not_bring_the_earlier_life_back_where_no_position_is_known() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr", "lga"], loop=loop)
    pipe = carry(source(loop, "second", 7000), target, "a")
    assert progress(target, "lga", Position(5000, 0), ewr="first@5000") == ""
    pipe.run()
    assert read_all(target) == ["a"]
    assert lives_to_name(target.topic())["ewr"] == "second@7000"
    assert told(target, "pulsar.repl.ewr-->jfk", "second@7000") == []


def test_progress_of_a_life_whose_ids_repeat_is_refused() -> None:
    target = taught(life="first")
    refusal = progress(target, "lga", Position(5000, 3), ewr="second@4000")
    assert "lga names positions of its life second@4000, and here its life is first@5000" in refusal


def test_progress_of_an_earlier_life_of_this_cluster_acknowledges_nothing_of_this_one() -> None:
    rebuilt = source(HandLoop(), "second", 4000)
    refusal = progress(rebuilt, "lga", Position(5000, 3), ewr="first@1000")
    assert "its life first@1000, and here its life is second@4000" in refusal
    assert progress(rebuilt, "lga", Position(3999, 3), ewr="first@1000") == ""


def test_markers_name_the_lives_that_are_known() -> None:
    target = taught(life="first")
    target.store.life = Life("own", 1)
    assert lives_to_name(target.topic()) == {"ewr": "first@5000", "jfk": "own@1"}


def test_a_sender_of_an_earlier_release_names_no_life_and_is_taken() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    older = Cluster("ewr", targets=["jfk"], loop=loop)
    carry(older, target, "a", "b").run()
    assert read_all(target) == ["a", "b"]


def test_invalid_lives_are_refused() -> None:
    target = Cluster("jfk", targets=["ewr"])
    ((code, _),) = told(target, "pulsar.repl.ewr-->jfk", "nothing")
    assert code == ServerError.MetadataError


def updated(target: Cluster, name: str, starts: dict[str, Position], lives: dict[str, str]) -> None:
    """Apply an update of lga that creates a subscription with these starts in ``target``."""
    topic = target.topic()
    end = topic.ledger.last_confirmed_entry
    update = SubscriptionUpdate(name, {target.name: end}, UpdateClaims(starts, {}, lives))
    target.do(lambda: SubscriptionUpdates(topic).apply("lga", update, end))


def test_an_update_of_a_third_cluster_names_the_life_of_its_positions() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "first", 5000), target, "a", "b").run()
    updated(target, "worker", {"ewr": Position(6007, 3)}, {"ewr": "second@6000"})
    assert list(target.topic().subscriptions) == ["worker"]
    carry(source(loop, "second", 6000), target, "c", lease=1).run()
    assert read_all(target) == ["a", "b", "c"]


def test_an_update_with_positions_that_are_ambiguous_here_is_ignored() -> None:
    loop = HandLoop()
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    carry(source(loop, "second", 6000), target, "a").run()
    updated(target, "worker", {"ewr": Position(6007, 3)}, {"ewr": "first@5000"})
    updated(target, "worker", {"ewr": Position(6007, 3)}, {"ewr": "no life"})
    assert target.topic().subscriptions == {}
    updated(target, "worker", {"ewr": Position(5007, 3)}, {"ewr": "first@5000"})
    assert list(target.topic().subscriptions) == ["worker"]
    assert told(target, "pulsar.repl.ewr-->jfk", "second@6000") == []
