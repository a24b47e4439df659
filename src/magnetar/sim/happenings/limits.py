"""Limits: a cluster takes only small messages for a while, and others publish messages that are too large for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.limits import MAX_MESSAGE_SIZE, REPLICATED_ENTRY_PADDING
from magnetar.pipeline.limits import PARK_MAX_SECONDS
from magnetar.sim.happenings.base import Action, Happening
from magnetar.sim.happenings.producers import Producers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.replica import Replica
    from magnetar.sim.site import Site

SMALL_BYTES = 1
"""``maxMessageSize`` of a cluster that takes only small messages. The room for metadata comes on top."""

PADDING_BYTES = (REPLICATED_ENTRY_PADDING, 12_000)
"""Bounds of what makes a message too large: for the broker's check of entries, or for that of frames."""

NOTICED_S = 3 * PARK_MAX_SECONDS
"""Virtual seconds of peace within which each link that meets such a message must be parked, with the reason.

A link that comes out of a long wait learns the reason, waits again, and names it when it comes the next time. In
between, a lease may end, and brokers that start again may let it wait.
"""


class Limits(Happening):
    """See the module."""

    name = "limits"
    share = 0.2
    counted = ("link parked for the size of a message",)

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("size limit lowered", 2.5, self._lower),
            Action("large message published", 5, self._publish),
        )

    def heal(self) -> None:
        """Look whether the links say why they wait, then raise the limits again."""
        if self._limited():
            self.world.peace_from_s = self.world.scheduler.now + NOTICED_S
            self.world.later(NOTICED_S, self._raise)

    def _limited(self) -> list[Site]:
        return [site for site in self.world.sites.values() if site.max_message_size < MAX_MESSAGE_SIZE]

    def _lower(self) -> bool:
        sites = [site for site in self.world.running() if site not in self._limited()]
        if len(sites) < 2:
            return False
        site = self.chance.choice(sites)
        site.max_message_size = SMALL_BYTES
        self.world.note(site.name, "takes only small messages from its next start on")
        self.world.kill(site)
        return True

    def _publish(self) -> bool:
        """Publish where large messages are taken; a producer that moves on may have to wait with its message."""
        limited = {site.name for site in self._limited()}
        producers = [producer for producer in self.world.producers if producer.cluster not in limited]
        if not limited or not producers:
            return False
        padding = self.chance.randint(*PADDING_BYTES)
        self.world.kind(Producers).publish_one(self.chance.choice(producers), padding)
        return True

    def _raise(self) -> None:
        limited = self._limited()
        for replica in self.world.loaded():
            for site in limited:
                self._check_parked(replica, site)
        for site in limited:
            site.max_message_size = MAX_MESSAGE_SIZE
            self.world.note(site.name, "takes large messages from its next start on")
            self.world.kill(site)

    def _check_parked(self, replica: Replica, target: Site) -> None:
        """B: a link whose next message is too large for the target is parked, and its statistics say why."""
        assert replica.topic is not None
        link = replica.topic.replicators.get(target.name)
        if link is None or link.oldest_unconfirmed is None:
            return
        model = self.world.referee.topics[replica.name].model
        log = model.logs[replica.cluster]
        entry = log.at.get(link.oldest_unconfirmed)
        is_large = entry is not None and len(model.contents[entry.text]) > SMALL_BYTES + REPLICATED_ENTRY_PADDING
        if entry is None or not is_large or not entry.is_for(target.name):
            return
        self.world.count("link parked for the size of a message")
        if not link.parked_reason:
            self.world.referee.violate(
                f"B: {replica.name.local_name} in {replica.cluster}: nothing tells why the link to {target.name} waits "
                f"at {entry.text}, which is too large for it"
            )
