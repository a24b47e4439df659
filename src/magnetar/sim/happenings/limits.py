"""Limits: a cluster takes only small messages for a while, and others publish messages that are too large for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.limits import MAX_MESSAGE_SIZE, REPLICATED_ENTRY_PADDING
from magnetar.pipeline.limits import PARK_MAX_SECONDS
from magnetar.sim.happenings.clients.producers import Producers
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.site import Replica, Site

SMALL_BYTES = 1
"""``maxMessageSize`` of a cluster that takes only small messages. The room for metadata comes on top."""

PADDING_BYTES = (REPLICATED_ENTRY_PADDING, 12_000)
"""Bounds of what makes a message too large: for the broker's check of entries, or for that of frames."""

NOTICED_S = 3 * PARK_MAX_SECONDS
"""Virtual seconds of peace within which each link that meets such a message must be parked, with the reason.

A link that comes out of a long wait learns the reason, waits again, and names it when it comes the next time. In
between, a lease may end, and brokers that start again may let it wait.
"""


LOOKED_AGAIN_S = 5.0
"""Virtual seconds after which a link that tells no reason is looked at once more."""


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

    def _raise(self, untold_before: frozenset[tuple[Replica, str]] = frozenset()) -> None:
        """B: a link whose next message is too large for the target is parked, and its statistics say why.

        A link that confirms something tells no reason for a moment, until it comes to the message again. So a link that
        tells none is looked at once more.
        """
        limited = self._limited()
        links = ((replica, site) for replica in self.world.loaded() for site in limited)
        untold = frozenset((replica, site.name) for replica, site in links if self._tells_nothing(replica, site))
        if untold and not untold_before:
            self.world.peace_from_s = self.world.scheduler.now + LOOKED_AGAIN_S
            self.world.later(LOOKED_AGAIN_S, lambda: self._raise(untold))
            return
        for replica, target in sorted(untold & untold_before, key=lambda each: (str(each[0].name), each[0].cluster)):
            self.world.referee.violate(
                f"B: nothing tells why the link of {replica.name.local_name} from {replica.cluster} to {target} waits"
            )
        for site in limited:
            site.max_message_size = MAX_MESSAGE_SIZE
            self.world.note(site.name, "takes large messages from its next start on")
            self.world.kill(site)

    def _tells_nothing(self, replica: Replica, target: Site) -> bool:
        """Whether the next message of a link is too large for the target, and nothing says so."""
        assert replica.topic is not None
        link = replica.topic.replicators.get(target.name)
        if link is None or link.lag.oldest_unconfirmed is None:
            return False
        model = self.world.referee.topics[replica.name].model
        entry = model.logs[replica.cluster].at.get(link.lag.oldest_unconfirmed)
        if entry is None or not entry.is_for(target.name):
            return False
        is_large = len(model.contents[entry.text]) > SMALL_BYTES + REPLICATED_ENTRY_PADDING
        self.world.count("link parked for the size of a message", is_large)
        return is_large and not link.parking.reason
