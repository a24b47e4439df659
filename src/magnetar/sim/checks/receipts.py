"""R, L: receipts of one topic, in the order of each producer, and within the lag limit (docs/guides/protection.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.publish.producer import LocalProducer
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.publish.interfaces import Producer
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Model
    from magnetar.sim.scenario import LagPolicy
    from magnetar.sim.site import Replica
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class AtRisk:
    """The receipted entries at risk, derived from the logs and the brokers' frames."""

    def __init__(self, policy: LagPolicy, model: Model) -> None:
        """Begin without receipts."""
        self.policy = policy
        self._model = model
        self._unsafe: dict[str, list[str]] = {}

    def receipted(self, cluster: str, text: str) -> list[str]:
        """Record a receipt for an entry of a cluster; return the entries at risk there from now on."""
        unsafe = self._unsafe.setdefault(cluster, [])
        if text not in unsafe:
            unsafe.append(text)
        unsafe[:] = [each for each in unsafe if not self._is_safe(cluster, each)]
        return unsafe

    def lose(self, cluster: str) -> None:
        """Forget the entries of a cluster that lost the topic."""
        self._unsafe.pop(cluster, None)

    def _is_safe(self, cluster: str, text: str) -> bool:
        entry = self._model.texts[text]
        if text in self._model.unsynced:
            return True  # it is not in the log any more
        copies = sum(
            text in ever or not entry.is_for(name) for name, ever in self._model.ever.items() if name != cluster
        )
        return copies >= self.policy.copies


class Receipts:
    """The receipts that brokers sent."""

    def __init__(self, model: Model, checker: Checker, lag: LagPolicy | None, violate: Callable[[str], None]) -> None:
        """Begin without receipts."""
        self._model = model
        self._checker = checker
        self._at_risk = AtRisk(lag, model) if lag is not None else None
        self._violate = violate
        self._receipted: dict[LocalProducer, tuple[int, Position]] = {}
        """The newest receipt of each producer: its sequence id, and the highest position so far."""

    def lose(self, cluster: str) -> None:
        """Forget a cluster that lost the topic."""
        if self._at_risk is not None:
            self._at_risk.lose(cluster)

    def given(self, replica: Replica, producer: Producer | None, receipt: pb.CommandSendReceipt) -> None:
        """R, L: receipts come in the producer's order, and the receipted entries at risk are within the limit."""
        if isinstance(producer, LocalProducer):
            self._check_order(replica, producer, receipt)
        if self._at_risk is None:
            return
        self._checker.look_at_log(replica)  # an entry of another cluster counts from its receipt
        if not isinstance(producer, LocalProducer) or replica.topic is None:
            return
        cluster, policy, log = replica.cluster, self._at_risk.policy, self._model.logs[replica.cluster]
        base = f"{producer.options.name}-{receipt.sequence_id}"
        entry = log.at.get(position_of(receipt.message_id)) or log.bases.get(base)
        if entry is None or entry.cluster != cluster:
            return  # an entry of another cluster, which counts it
        unsafe = self._at_risk.receipted(cluster, entry.text)
        if len(unsafe) > policy.messages and not replica.topic.is_closing:
            self._violate(
                f"L: {cluster} sent a receipt for {entry.text}: {len(unsafe)} entries in fewer than {policy.copies} "
                f"other clusters, the limit is {policy.messages}: {unsafe[-5:]}"
            )

    def _check_order(self, replica: Replica, producer: LocalProducer, receipt: pb.CommandSendReceipt) -> None:
        sequence_id, position = self._receipted.get(producer, (-1, EARLIEST))
        given = position_of(receipt.message_id)
        newest = sequence_id - (f"{producer.options.name}-{sequence_id}" in self._model.chunked)
        if receipt.sequence_id <= newest or (given != EARLIEST and given <= position):
            self._violate(
                f"R: {replica.cluster} sent {producer.options.name} a receipt for {receipt.sequence_id} at {given} "
                f"after the receipt for {sequence_id} at {position}"
            )
        self._receipted[producer] = receipt.sequence_id, max(given, position)
