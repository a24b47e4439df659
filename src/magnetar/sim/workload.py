"""What clients do, and what happens to clusters, at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST
from magnetar.sim.operators import Operators
from magnetar.sim.world import SUBSCRIPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.clients import SimConsumer
    from magnetar.sim.site import Site
    from magnetar.sim.world import World

DOWN_S = (0.1, 4.0)
"""How long a broker is down after a crash."""

SOON_S = (0.0, 0.03)
"""How soon a crash may come after what it is to interrupt."""

FULL_S = (0.1, 2.0)
"""How long a disk is full, or fails before somebody does something about it."""

KEYS = ("", "a", "b", "c")
"""Keys of messages; empty: no key."""

TOGETHER = 0.7
"""How often a consumer that has keys of its own comes where others have theirs: only there can they be mixed up."""

SKIPPED_MAX = 6
"""How many entries an operator skips at most."""

EXPIRED_S = (1.0, 12.0)
"""How old entries are that an operator expires."""

JUMP_S = 30.0
"""How far a clock may be off, either way."""


class Workload:
    """One random thing after another."""

    def __init__(self, world: World) -> None:
        """Act on ``world``."""
        self._world = world
        self._chance = world.chance
        self._operators = Operators(world.referee)
        self._actions: list[tuple[int, Callable[[], None]]] = [
            (24, self._publish),
            (30, self._acknowledge),
            (8, self._acknowledge_member),
            (6, self._acknowledge_through),
            (5, self._refuse),
            (4, self._switch),
            (2, self._send_again),
            (2, self._seek),
            (1, self._unsubscribe),
            (3, self._trim),
            (1, self._unload),
            (1, self._skip),
            (1, self._clear),
            (1, self._expire),
        ]
        self._faults: list[tuple[int, Callable[[], None]]] = [
            (4, self._break_connection),
            (2, self._partition),
            (2, self._slow_down),
            (3, self._heal),
            (2, self._crash),
            (4, self._crash_soon),
            (2, self._hand_over),
            (1, self._kill_task),
            (2, self._stall_task),
            (2, self._lose_rows),
            (1, self._jump_clock),
            (2, self._fill_disk),
            (1, self._fail_disk),
        ]

    def begin(self) -> None:
        """Some producers and consumers come."""
        for _ in range(self._chance.randint(1, 3)):
            self._world.add_producer()
        for _ in range(self._chance.randint(0, 3)):
            self._publish()
        self._world.run(1.0)
        for subscription in SUBSCRIPTIONS:
            for _ in range(self._chance.randint(1, 2) + (subscription == "keys")):
                self._join(subscription)

    def act(self) -> None:
        """Let a client do something, or something happen."""
        chosen = self._actions if self._chance.random() < 0.85 else self._faults
        weights = [weight for weight, _ in chosen]
        (action,) = self._chance.choices([action for _, action in chosen], weights)
        action()

    def heal(self) -> None:
        """Let everything be well from now on."""
        self._world.network.heal()
        for site in self._world.sites.values():
            site.disk.room = None
            if site.disk.fail_syncs:
                self._crash_site(site)
            self._start(site)

    # -- clients ------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        producer = self._chance.choice(self._world.producers)
        now_ms = int(self._world.sites[producer.cluster].clock.now() * 1000)
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            members = self._chance.choice((1, 1, 1, 2, 3))
            delay_ms = self._chance.randint(1, 3000) if self._chance.random() < 0.1 else 0
            deliver_at_ms = now_ms + delay_ms if delay_ms else 0
            text = producer.publish(members, now_ms, deliver_at_ms, self._chance.choice(KEYS))
            self._world.referee.note(producer.machine, producer.cluster, f"publishes {text}")

    def _send_again(self) -> None:
        producer = self._chance.choice(self._world.producers)
        self._world.note(producer.machine, "sends again what has no receipt")
        producer.send_again()

    def _acknowledge(self) -> None:
        consumer = self._holding()
        if consumer is not None:
            held = list(consumer.held.values())
            chosen = self._chance.sample(held, self._chance.randint(1, min(4, len(held))))
            consumer.acknowledge(chosen, confirmed=self._chance.random() < 0.6)

    def _acknowledge_member(self) -> None:
        consumer = self._holding()
        batches = [held for held in consumer.held.values() if held.members > 1] if consumer is not None else []
        if consumer is not None and batches:
            held = self._chance.choice(batches)
            member = self._chance.choice([bit for bit in range(held.members) if held.remaining >> bit & 1])
            consumer.acknowledge_member(held, member, confirmed=self._chance.random() < 0.6)

    def _acknowledge_through(self) -> None:
        consumer = self._holding()
        if consumer is not None:
            held = self._chance.choice(list(consumer.held.values()))
            consumer.acknowledge_through(held, confirmed=self._chance.random() < 0.6)

    def _refuse(self) -> None:
        consumer = self._holding()
        if consumer is not None:
            held = list(consumer.held.values())
            consumer.refuse(self._chance.sample(held, self._chance.randint(1, len(held))))

    def _seek(self) -> None:
        consumer = self._holding()
        if consumer is not None:
            held = self._chance.choice(list(consumer.held.values()))
            consumer.seek(held.position if self._chance.random() < 0.7 else EARLIEST)

    def _unsubscribe(self) -> None:
        consumer = self._holding()
        if consumer is not None:
            self._world.consumers.remove(consumer)
            consumer.unsubscribe()
            self._join(consumer.subscription)

    def _switch(self) -> None:
        consumer = self._chance.choice(self._world.consumers)
        self._world.note(consumer.machine, f"leaves {consumer.subscription}")
        self._world.consumers.remove(consumer)
        consumer.stop()
        self._join(consumer.subscription)

    def _join(self, subscription: str) -> None:
        cluster = self._chance.choice(list(self._world.sites))
        others = [each.cluster for each in self._world.consumers if each.subscription == subscription]
        if subscription == "keys" and others and self._chance.random() < TOGETHER:
            cluster = self._chance.choice(others)
        self._world.add_consumer(subscription, cluster, earliest=self._chance.random() < 0.7)

    def _holding(self) -> SimConsumer | None:
        holding = [consumer for consumer in self._world.consumers if consumer.held]
        return self._chance.choice(holding) if holding else None

    # -- operators ----------------------------------------------------------------------------------------------------

    def _skip(self) -> None:
        for site, name in self._subscription():
            self._operators.skip(site, name, self._chance.randint(1, SKIPPED_MAX))

    def _clear(self) -> None:
        for site, name in self._subscription():
            self._operators.clear(site, name)

    def _expire(self) -> None:
        for site, name in self._subscription():
            self._operators.expire(site, name, self._chance.uniform(*EXPIRED_S))

    def _subscription(self) -> list[tuple[Site, str]]:
        """Some subscription in some cluster, if there is any."""
        found = [(site, name) for site in self._world.running() if site.topic for name in site.topic.subscriptions]
        return [self._chance.choice(found)] if found else []

    # -- what brokers do from time to time ----------------------------------------------------------------------------

    def _trim(self) -> None:
        running = self._world.running()
        if running:
            site = self._chance.choice(running)
            self._world.note(site.name, "trims")
            site.loop.create_task(site.maintenance.trim())
            site.loop.create_task(site.maintenance.tend_deduplication())

    def _unload(self) -> None:
        running = [site for site in self._world.running() if site.topic is not None]
        if running:
            site = self._chance.choice(running)
            self._world.note(site.name, "unloads the topic")
            topic = site.topic
            assert topic is not None
            site.loop.call_soon(site.topics.unload, topic.name)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _break_connection(self) -> None:
        self._world.network.break_one()

    def _partition(self) -> None:
        places = self._two_places()
        self._world.note(min(places), f"is cut off from {max(places)}")
        self._world.network.partition(places)

    def _slow_down(self) -> None:
        places = self._two_places()
        self._world.note(min(places), f"has a slow connection to {max(places)}")
        self._world.network.slow.add(places)

    def _heal(self) -> None:
        self._world.note(min(self._world.sites), "the network heals")
        self._world.network.heal()

    def _two_places(self) -> frozenset[str]:
        return frozenset(self._chance.sample(list(self._world.sites), 2))

    def _crash(self) -> None:
        running = self._world.running()
        if running:
            self._crash_site(self._chance.choice(running))

    def _crash_soon(self) -> None:
        """Crash where somebody is just waiting to hear that what was done is durable."""
        consumer = self._holding()
        if consumer is None:
            return
        self._chance.choice((self._acknowledge, self._acknowledge_through, self._seek))()
        consumer.acknowledge(list(consumer.held.values())[:2], confirmed=True)
        site = self._world.sites[consumer.cluster]
        self._world.later(self._chance.uniform(*SOON_S), lambda: self._crash_site(site))

    def _crash_site(self, site: Site) -> None:
        if not site.running:
            return
        self._world.note(site.name, "crashes")
        site.crash(self._chance)
        self._world.later(self._chance.uniform(*DOWN_S), lambda: self._start(site))

    def _start(self, site: Site) -> None:
        if site.running:
            return
        try:
            site.start()
        except MagnetarError as error:
            self._world.referee.violate(f"{site.name} refuses what a crash left it: {error}")
        else:
            self._world.note(site.name, "starts again")

    def _fill_disk(self) -> None:
        running = self._world.running()
        if running:
            site = self._chance.choice(running)
            site.disk.room = self._chance.randint(0, 2000)
            self._world.note(site.name, f"its disk has room for {site.disk.room} bytes")
            self._world.later(self._chance.uniform(*FULL_S), lambda: self._make_room(site))

    def _make_room(self, site: Site) -> None:
        site.disk.room = None
        self._world.note(site.name, "its disk has room again")

    def _fail_disk(self) -> None:
        """Nothing can be made durable any more, until somebody starts the broker on a sound disk."""
        running = self._world.running()
        if running:
            site = self._chance.choice(running)
            site.disk.fail_syncs = True
            self._world.note(site.name, "its disk fails")
            self._world.later(self._chance.uniform(*FULL_S), lambda: self._crash_site(site))

    def _hand_over(self) -> None:
        relay = self._chance.choice(self._world.relays)
        self._world.note(relay.target, "the pipeline's next lease begins")
        relay.hand_over()
        if len(relay.tasks) > 2:
            relay.end_oldest()

    def _kill_task(self) -> None:
        relay = self._chance.choice(self._world.relays)
        self._world.note(relay.target, "the pipeline's task is killed, and retried")
        while relay.tasks:
            relay.end_oldest()
        relay.hand_over(again=True)

    def _stall_task(self) -> None:
        relay = self._chance.choice(self._world.relays)
        self._world.note(relay.target, "the pipeline's task stands still")
        relay.stall(self._chance.uniform(0.5, 4.0))

    def _lose_rows(self) -> None:
        relay = self._chance.choice(self._world.relays)
        self._world.note(relay.target, "the pipeline's task loses some of what it reads next")
        relay.lose()

    def _jump_clock(self) -> None:
        site = self._chance.choice(list(self._world.sites.values()))
        site.clock.jumped_s = self._chance.uniform(-JUMP_S, JUMP_S)
        self._world.note(site.name, f"its clock is off by {site.clock.jumped_s:.1f} s")
