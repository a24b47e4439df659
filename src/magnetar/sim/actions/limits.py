"""Limits: a cluster lowers its message size limit for a while, and others publish messages above the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.limits import MAX_MESSAGE_SIZE, REPLICATED_ENTRY_PADDING
from magnetar.pipeline.limits import PARK_MAX_SECONDS
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.site import Replica, Site

SMALL_BYTES = 1
"""``maxMessageSize`` of a cluster with the lowered limit. The allowance for metadata is added."""

PADDING_BYTES = (REPLICATED_ENTRY_PADDING, 12_000)
"""Bounds of the padding of a large message. It exceeds the broker's limit for entries, or that for frames."""

NOTICED_S = 3 * PARK_MAX_SECONDS
"""Virtual seconds without faults within which each link with such a message must be parked, with the reason.

A link that ends a long pause learns the reason, pauses again, and reports the reason after the next attempt. In
between, a lease may end, and restarted brokers may delay the link.
"""


LOOKED_AGAIN_S = 5.0
"""Virtual seconds until a link without a reason is examined again."""


class Limits(ActionGroup):
    """See the module."""

    name = "limits"
    share = 0.2
    counted = ("link parked for the size of a message",)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("size limit lowered", 2.5, self._lower),
            Action("large message published", 5, self._publish),
        )

    def heal(self) -> None:
        """Check that the links report why they are parked, then restore the limits."""
        if self._limited():
            self.simulation.last_repair_s = self.simulation.scheduler.now + NOTICED_S
            self.simulation.later(NOTICED_S, self._raise)

    def _limited(self) -> list[Site]:
        return [site for site in self.simulation.sites.values() if site.max_message_size < MAX_MESSAGE_SIZE]

    def _lower(self) -> bool:
        sites = [site for site in self.simulation.running() if site not in self._limited()]
        if len(sites) < 2:
            return False
        site = self.chance.choice(sites)
        site.max_message_size = SMALL_BYTES
        self.simulation.note(site.name, "takes only small messages from its next start on")
        self.simulation.kill(site)
        return True

    def _publish(self) -> bool:
        """Publish in a cluster without the lowered limit. A producer that moves may have to wait with its message."""
        limited = {site.name for site in self._limited()}
        producers = [producer for producer in self.simulation.producers if producer.cluster not in limited]
        if not limited or not producers:
            return False
        padding = self.chance.randint(*PADDING_BYTES)
        self.simulation.group(Producers).publish_one(self.chance.choice(producers), padding)
        return True

    def _raise(self, untold_before: frozenset[tuple[Replica, str]] = frozenset()) -> None:
        """B: a link whose next message is too large for the target is parked, and its statistics give the reason.

        A link that confirms an entry reports no reason until it reaches the large message again. So a link without a
        reason is examined a second time.
        """
        limited = self._limited()
        links = ((replica, site) for replica in self.simulation.loaded() for site in limited)
        untold = frozenset((replica, site.name) for replica, site in links if self._tells_nothing(replica, site))
        if untold and not untold_before:
            self.simulation.last_repair_s = self.simulation.scheduler.now + LOOKED_AGAIN_S
            self.simulation.later(LOOKED_AGAIN_S, lambda: self._raise(untold))
            return
        for replica, target in sorted(untold & untold_before, key=lambda each: (str(each[0].name), each[0].cluster)):
            self.simulation.checks.violate(
                f"B: the link of {replica.name.local_name} from {replica.cluster} to {target} waits without a reason"
            )
        for site in limited:
            site.max_message_size = MAX_MESSAGE_SIZE
            self.simulation.note(site.name, "takes large messages from its next start on")
            self.simulation.kill(site)

    def _tells_nothing(self, replica: Replica, target: Site) -> bool:
        """Return whether the next message of a link is too large for the target, and the link reports no reason."""
        assert replica.topic is not None
        link = replica.topic.replicators.get(target.name)
        if link is None or link.lag.oldest_unconfirmed is None:
            return False
        model = self.simulation.checks.topics[replica.name].model
        entry = model.logs[replica.cluster].at.get(link.lag.oldest_unconfirmed)
        if entry is None or not entry.is_for(target.name):
            return False
        is_large = len(model.contents[entry.text]) > SMALL_BYTES + REPLICATED_ENTRY_PADDING
        self.simulation.count("link parked for the size of a message", is_large)
        return is_large and not link.parking.reason
