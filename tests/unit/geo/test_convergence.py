from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.position import Position
from tests.unit.geo.network import EVERY, Cluster, ClusterNetwork

COMMANDS = [
    *["publish", "replicate", "acknowledge", "deliver"] * 3,
    *["batch", "flush"] * 2,
    *["through", "lose", "repeat", "full", "crash", "roll", "trim", "subscribe"],
]

Step = tuple[str, int, int, int]


def steps(commands: list[str]) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(st.sampled_from(commands), st.integers(0, 3), st.integers(0, 3), st.integers(0, 40))
    return st.lists(step, min_size=20, max_size=80)


def run(names: str, subscribed: int, commands: list[Step]) -> ClusterNetwork:
    """Run the commands; ``subscribed`` has a bit for each cluster whose subscription is created at the beginning."""
    network = ClusterNetwork(names)
    for number, cluster in enumerate(network.clusters.values()):
        if subscribed >> number & 1:
            cluster.subscribe(Position(1, -1))
    for command, first, second, number in commands:
        step(network, command, (first, second, number))
        network.check()
    return network


def step(network: ClusterNetwork, command: str, arguments: tuple[int, int, int]) -> None:  # noqa: C901 - a table of commands
    first, second, number = arguments
    clusters = list(network.clusters.values())
    cluster, other = clusters[first % len(clusters)], clusters[second % len(clusters)]
    positions = sorted(cluster.entries)
    chosen = positions[number % len(positions)] if positions else Position(1, -1)
    match command:
        case "publish":
            others = {name for name in network.clusters if name != cluster.name}
            for _ in range(1 + number % 4):
                cluster.publish(others if number % 5 else {other.name})
        case "replicate" if cluster is not other:
            fresh = other.index.last_position(cluster.name) is None
            begin = 0 if number % 3 else second
            network.replicate(cluster, other, begin, number, link_start=fresh and number % 4 == 0)
        case "deliver" | "repeat" | "lose" if network.messages:
            at = number % len(network.messages)
            message = network.messages[at] if command == "repeat" else network.messages.pop(at)
            if command != "lose":
                network.deliver(message)
        case "roll":
            cluster.log.roll()
        case "crash":
            cluster.crash()
        case "trim":
            cluster.trim()
        case "subscribe":
            cluster.subscribe(chosen if number % 2 else Position(1, -1))
        case _ if cluster.progress is not None:
            subscription_step(network, cluster, command, chosen, arguments)


def subscription_step(
    network: ClusterNetwork, cluster: Cluster, command: str, chosen: Position, arguments: tuple[int, int, int]
) -> None:
    _, second, number = arguments
    positions = sorted(cluster.entries)
    match command:
        case "acknowledge" if positions:
            cluster.acknowledge(positions[number % len(positions) :: 2])
        case "through" if positions:
            cluster.acknowledge_through(chosen)
        case "batch" if positions:
            cluster.acknowledge_batch(chosen, EVERY & ~(1 << second % 3))
        case "flush":
            cluster.flush()
            cluster.store.settle()
        case "full":
            cluster.flush()
            cluster.store.settle()
            assert cluster.progress is not None
            network.send(cluster, cluster.progress, cluster.twin)
        case "seek":
            cluster.seek(chosen if number % 2 else Position(1, -1))


def heal(network: ClusterNetwork) -> None:
    """Replicate everything, and send every whole state to all others."""
    clusters = list(network.clusters.values())
    for _ in range(2):
        for source in clusters:
            for target in clusters:
                if source is not target:
                    network.replicate(source, target, 0, 1000, link_start=False)
        for cluster in clusters:
            if cluster.progress is not None:
                cluster.flush()
                cluster.store.settle()
                network.messages.clear()
                network.send(cluster, cluster.progress, cluster.twin, bytes_max=100_000)
                for message in network.messages:
                    network.deliver(message)
                network.messages.clear()
                network.check()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["ab", "abc", "abcd"]), st.integers(0, 15), steps(COMMANDS))
def test_nothing_is_skipped_or_delivered_again_and_all_converge(
    names: str, subscribed: int, commands: list[Step]
) -> None:
    network = run(names, subscribed, commands)
    heal(network)
    states = [cluster.progress for cluster in network.clusters.values() if cluster.progress is not None]
    assert len(states) in (0, len(network.clusters))
    assert all(state == states[0] for state in states)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["ab", "abc"]), st.integers(0, 7), steps([*COMMANDS, "seek"]))
def test_seeks_converge_too(names: str, subscribed: int, commands: list[Step]) -> None:
    network = run(names, subscribed, commands)
    heal(network)
    states = [cluster.progress for cluster in network.clusters.values() if cluster.progress is not None]
    assert all(state == states[0] for state in states)
