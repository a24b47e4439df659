"""The safety invariants, checked against the model after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.checks.acknowledgement_check import AcknowledgementCheck
from magnetar.sim.checks.claimed import unclaimed
from magnetar.sim.checks.model import ATTEMPT, CHUNK, Entry, Model, read_entry
from magnetar.sim.content import is_same

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.checks.unsynced import Unsynced
    from magnetar.sim.site import Replica


class Checker:
    """Compares the state of brokers with the model of one topic."""

    def __init__(
        self, model: Model, violated: Callable[[str], None], unsynced: Unsynced, *, deduplicated: bool
    ) -> None:
        """Compare with ``model`` and report differences to ``violated``; ``deduplicated``: nothing may be stored twice.

        ``unsynced`` decides which entries a loss of power may remove.
        """
        self._model = model
        self._unsynced = unsynced
        self._deduplicated = deduplicated
        self._violated = violated
        self._seen_crashes: dict[str, int] = {}
        self._listed: dict[str, set[int]] = {}
        """By cluster, the ledgers of the topic when the broker ended; removed after the next start."""
        self._compared: dict[tuple[str, str], tuple[int, int]] = {}
        """By cluster and origin, the number of compared entries, and the lowest rank of the next entry."""
        self._chunks: dict[tuple[str, str], int] = {}
        """By cluster and message, the id of the last published chunk."""
        self._acknowledgement_check = AcknowledgementCheck(model, violated)

    def lose(self, cluster: str) -> None:
        """Forget the results for a cluster that lost the topic."""
        self._forget_findings(cluster)
        self._chunks = {key: found for key, found in self._chunks.items() if key[0] != cluster}

    def _forget_findings(self, cluster: str) -> None:
        self._compared = {key: found for key, found in self._compared.items() if key[0] != cluster}
        self._acknowledgement_check.forget_findings(cluster)

    def ended(self, replica: Replica) -> None:
        """Record the ledgers of a topic right after its broker ended, to distinguish lost entries from trimmed ones."""
        self._listed[replica.cluster] = set(replica.listed())

    def started(self, replica: Replica) -> None:
        """Compare the log with the recovered store before the topic is loaded."""
        listed = self._listed.pop(replica.cluster, set())
        known = [each for each in self._model.logs[replica.cluster].entries if each[0].ledger_id in listed]
        found = [each for each in known if replica.has_stored(each[0])]
        left = self._unsynced.accept(replica, known, found)
        if left < len(known):
            # The results cover more entries than are left. Chunks stay: a lost chunk with a receipt is not sent again.
            self._forget_findings(replica.cluster)
        self._compare(replica, known[:left], found)

    def check(self, replica: Replica, awaited: Collection[str]) -> None:
        """Check everything about one cluster; all logs must have been read just before.

        The creation of the ``awaited`` subscriptions was never answered: the topic is closing, and has them in memory.
        """
        if replica.topic is None:
            return
        self._check_receipts(replica)
        self._check_replicated(replica)
        for name in sorted({sub for cluster, sub in self._model.promises if cluster == replica.cluster}):
            if name not in replica.topic.subscriptions:
                self._check_missing(replica, name)
        for subscription in replica.topic.subscriptions.values():
            if subscription.progress is not None and subscription.name not in awaited:
                self._acknowledgement_check.check(replica, subscription, subscription.progress.state)
                self._check_kept(replica, subscription, subscription.progress.state)

    # -- P1, P2, P5: the log ----------------------------------------------------------------------------------------

    def look_at_log(self, replica: Replica) -> None:
        """Check new durable entries, and after a restart the old ones.

        New entries must be published entries, in order and without duplicates. Has no effect while the topic is not
        loaded.
        """
        if replica.topic is None:
            return
        log = self._model.logs[replica.cluster]
        log.trimmed_before = max(log.trimmed_before, replica.topic.ledger.first_position)
        if self._seen_crashes.get(replica.cluster, 0) != replica.crashes:
            self._seen_crashes[replica.cluster] = replica.crashes
            self._check_survived(replica)
        after = log.entries[-1][0] if log.entries else EARLIEST
        if replica.topic.ledger.last_confirmed_entry <= after:
            return
        for position, data in replica.durable_entries(after):
            entry = read_entry(replica.cluster, position, data)
            if position <= self._model.given[replica.cluster]:
                self._violated(f"P5: {replica.cluster} stored {entry.text} at {position}, which was used before")
            self.check_content(f"{replica.cluster} holds at {position}", entry.text, data)
            if entry.cluster == replica.cluster and entry.position != position:
                self._check_returned(replica, entry)
            elif entry.cluster == replica.cluster:
                self._check_published(replica, entry, log.bases.get(entry.whole))
            self._model.add(replica.cluster, position, entry, len(data), replica.site.clock.monotonic())
        last = replica.topic.ledger.last_confirmed_entry
        if last.entry_id >= 0 and (not log.entries or log.entries[-1][0] < last):
            self._violated(f"P1: {replica.cluster} reports {last} as durable, but its log ends before")

    def _check_returned(self, replica: Replica, entry: Entry) -> None:
        """P2: entries sent back are those published before the loss of the disk, each once.

        The custodian of a cluster also sends back those that it has deleted with the topic.
        """
        here, model = replica.cluster, self._model
        lost = model.lost[here] if here in model.custody.lost_before_return else model.lost_with_disk[here]
        if model.texts.get(entry.text) != entry or model.ranks[entry.text] >= lost:
            self._violated(f"P2: {here} accepted the returned entry {entry}, which it did not lose")
        if entry.text in model.logs[here].places:
            self._violated(f"P2: {here} accepted the returned entry {entry.text}, which it has")

    def _check_receipts(self, replica: Replica) -> None:
        receipts = self._model.receipts[replica.cluster]
        for text, position in receipts.items():
            entry = self._model.texts.get(text)
            if position == EARLIEST:  # another attempt to publish it is stored, and has the same origin: see P2
                base = text.partition(ATTEMPT)[0]
                is_held = any(base.partition(CHUNK)[0] in bases for bases in self._model.bases.values())
            else:
                is_held = entry is not None and (entry.cluster, entry.position) == (replica.cluster, position)
            if not is_held:
                self._violated(f"P1: {replica.cluster} receipted {text} at {position}, but has {entry} there")
        receipts.clear()

    def check_content(self, what: str, text: str, data: bytes) -> None:
        """C: an entry equals the producer's entry in every byte; ``what`` names the holder in the error."""
        published = self._model.contents.get(text)
        if published is None or not is_same(published, data):
            self._violated(f"C: {what} {text or 'an unreadable entry'}, which differs from the published entry")

    def _check_chunk(self, replica: Replica, entry: Entry) -> None:
        """C: a chunk follows the previous one or repeats one; the first chunks may be lost with the topic."""
        key = replica.cluster, entry.whole
        last = self._chunks.get(key, -1)
        if entry.chunk_id > last + 1 and not (last == -1 and self._model.generations[replica.cluster]):
            self._violated(f"C: {replica.cluster} stored chunk {entry.chunk_id} of {entry.whole} after {last}")
        self._chunks[key] = entry.chunk_id

    def _check_survived(self, replica: Replica) -> None:
        assert replica.topic is not None
        first = replica.topic.ledger.first_position
        known = [
            (position, entry) for position, entry in self._model.logs[replica.cluster].entries if position >= first
        ]
        found = [(at, read_entry(replica.cluster, at, data)) for at, data in replica.durable_entries(EARLIEST)]
        self._compare(replica, known, found[: len(known)])

    def _compare(
        self, replica: Replica, known: list[tuple[Position, Entry]], found: list[tuple[Position, Entry]]
    ) -> None:
        if found != known:
            lost = [f"{entry.text} at {position}" for position, entry in known if (position, entry) not in found]
            self._violated(f"P1: after a restart {replica.cluster} lacks {lost[:5]}")

    def _check_published(self, replica: Replica, entry: Entry, attempt: Entry | None) -> None:
        """Check an entry that ``replica`` published; ``attempt`` is an earlier attempt to publish the same messages."""
        if attempt is not None and self._deduplicated and attempt.whole not in self._model.damaged:
            self._violated(f"D: {replica.cluster} stored {entry.text}, but had {attempt.text} with the same messages")
        before = self._model.texts.get(entry.text)
        if before is not None and before != entry:
            self._violated(
                f"P5: {entry.text} is in {replica.cluster} at {entry.position}, but has the origin {before} too"
            )
        self._check_chunk(replica, entry)
        published = self._model.published[replica.cluster]
        if published and entry.position <= published[-1].position:
            self._violated(f"P5: {replica.cluster} stored {entry.text} at {entry.position}, after {published[-1]}")

    def _check_replicated(self, replica: Replica) -> None:
        """P2: replicated entries are entries of their origin in its order, without gaps.

        Entries that the origin no longer has may be missing.
        """
        here, model = replica.cluster, self._model
        for cluster, arrived in model.logs[here].of.items():
            if cluster == here:
                continue
            seen, following = self._compared.get((here, cluster), (0, 0))
            published = model.published[cluster]
            for entry in arrived[seen:]:
                rank = model.ranks.get(entry.text)
                if rank is None or published[rank] != entry or rank < following:
                    self._violated(f"P2: {here} has {entry}, which {cluster} did not publish after {following} others")
                    return
                source = replica.site.peers[cluster].replicas[replica.name]
                missed = [each for each in published[following:rank] if self.is_due(each, source, here)]
                if not entry.is_for(here):
                    self._violated(f"P2: {here} has {entry}, which is not meant for it")
                if missed:
                    self._violated(f"P2: {here} has {entry.text} of {cluster}, but not the earlier {missed[0]}")
                following = rank + 1
            self._compared[here, cluster] = len(arrived), following

    def is_due(self, entry: Entry, source: Replica, target: str) -> bool:
        """Return whether a cluster must get an entry: it is meant for it, and its carrier still has it."""
        is_trimmed = entry.position < self._model.logs[entry.cluster].trimmed_before
        return (
            entry.is_for(target)
            and not self._model.is_lost(entry)
            and not is_trimmed
            and source.has_listed(entry.position)
            and self._can_be_carried(entry, source)
        )

    def _can_be_carried(self, entry: Entry, source: Replica) -> bool:
        """Return whether the custodian of an entry still has it; True for an entry that its origin carries."""
        custodian = self._model.custody.custodians.get(entry.cluster)
        if custodian is None:
            return True
        place = self._model.logs[custodian].places.get(entry.text, EARLIEST)
        return source.site.peers[custodian].replicas[source.name].has_listed(place)

    def forgive_duplicates(self) -> None:
        """Allow duplicates from now on, because deduplication is switched on and off."""
        self._deduplicated = False

    # -- P3, P6: confirmed acknowledgements are durable ----------------------------------------------------------------

    def _check_kept(self, replica: Replica, subscription: Subscription, state: SubscriptionProgress) -> None:
        promise = self._model.promise(replica.cluster, subscription.name)
        if state.epoch < promise.epoch:
            self._violated(
                f"P6: {subscription.name} in {replica.cluster} is in epoch {state.epoch}, "
                f"after epoch {promise.epoch} was confirmed"
            )
        if state.epoch == promise.epoch:
            for text, mask in promise.acknowledged.items():
                entry = self._model.texts[text]
                if unclaimed(state, entry) & mask:
                    self._violated(
                        f"P6: {text} of {subscription.name} in {replica.cluster}, epoch {state.epoch}, was "
                        f"acknowledged ({mask:b}) and confirmed, but is missing in the replicated state"
                    )
                if self.left(replica, subscription, entry) & mask:
                    self._violated(
                        f"P6: {text} of {subscription.name} in {replica.cluster}, epoch {state.epoch}, "
                        f"was acknowledged ({mask:b}) and confirmed, but is unacknowledged"
                    )

    def _check_missing(self, replica: Replica, name: str) -> None:
        promise = self._model.promise(replica.cluster, name)
        if promise.acknowledged and not self._model.is_buried(replica.cluster, name, promise.epoch):
            self._violated(
                f"P6: {name} in {replica.cluster} is missing, but was not deleted since epoch {promise.epoch}"
            )

    def is_left(self, subscription: Subscription, entry: Entry) -> bool:
        """Return whether the cursor still has unacknowledged messages of an entry that its cluster holds."""
        cluster = subscription.environment.cluster
        state, place = subscription.cursor.state, self._model.logs[cluster].places[entry.text]
        return place > state.mark_delete_position and not state.is_deleted(place)

    def left(self, replica: Replica, subscription: Subscription, entry: Entry) -> int:
        """Return a bit set of the messages of an entry that a cluster would still deliver if it held the entry."""
        assert subscription.progress is not None
        cursor = subscription.cursor.state
        place = self._model.logs[replica.cluster].places.get(entry.text)
        if place is None or place < subscription.topic.ledger.first_position:  # it never arrived, or it was trimmed
            return unclaimed(subscription.progress.state, entry)
        if place <= cursor.mark_delete_position or cursor.is_deleted(place):
            return 0
        left = cursor.remaining(place)
        return entry.every if left is None else left
