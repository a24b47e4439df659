"""Subscriptions that outlive a deletion in another cluster or a loss of their topic, in the model of the simulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from magnetar.base.position import EARLIEST
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch
from magnetar.sim.checks.checker import Checker
from magnetar.sim.checks.lifetimes import Lifetimes
from magnetar.sim.checks.model import Model
from magnetar.sim.checks.unsynced import Unsynced

if TYPE_CHECKING:
    from magnetar.sim.site import Replica

TOMBSTONE = Epoch(1, "ewr")
AFTERWARDS = TOMBSTONE.created_after()


class DeletionScenario:
    """A subscription of ord in which an entry was acknowledged."""

    def __init__(self) -> None:
        self.model = Model(["ewr", "ord"])
        checker = Checker(self.model, lambda _: None, Unsynced(self.model, sync=True), deduplicated=True)
        self.lifetimes = Lifetimes(self.model, checker, lambda *_: None)
        self.model.begin_lifetime("ord", "worker", FIRST_EPOCH).acknowledge("p1-0", 1)
        self.replica = self.loaded(FIRST_EPOCH)
        self.lifetimes.look_for_outlived(self.replica)

    def loaded(self, epoch: Epoch) -> Replica:
        """Return ord with a topic just loaded, whose subscription is in ``epoch``."""
        progress = SimpleNamespace(state=SimpleNamespace(epoch=epoch))
        topic = SimpleNamespace(subscriptions={"worker": SimpleNamespace(name="worker", progress=progress)})
        return cast("Replica", SimpleNamespace(cluster="ord", topic=topic))

    def acknowledged(self, epoch: Epoch) -> dict[str, int]:
        return self.model.lifetime("ord", "worker", epoch).acknowledged


def test_a_subscription_goes_on_although_its_topic_is_unloaded_right_after_the_deletion_was_applied() -> None:
    scenario = DeletionScenario()
    scenario.lifetimes.deletion_came(scenario.replica, "worker", TOMBSTONE)
    scenario.lifetimes.look_for_outlived(scenario.replica)
    assert scenario.acknowledged(AFTERWARDS) == {}
    scenario.lifetimes.look_for_outlived(scenario.loaded(AFTERWARDS))
    assert scenario.acknowledged(AFTERWARDS) == {"p1-0": 1}


def test_a_subscription_of_a_new_topic_does_not_go_on() -> None:
    scenario = DeletionScenario()
    scenario.lifetimes.deletion_came(scenario.replica, "worker", TOMBSTONE)
    scenario.lifetimes.lose("ord")
    scenario.lifetimes.look_for_outlived(scenario.loaded(AFTERWARDS))
    assert scenario.acknowledged(AFTERWARDS) == {}


def test_an_epoch_that_no_deletion_explains_does_not_go_on() -> None:
    scenario = DeletionScenario()
    scenario.lifetimes.look_for_outlived(scenario.loaded(AFTERWARDS))
    assert scenario.acknowledged(AFTERWARDS) == {}


def test_a_request_creates_a_subscription_again_if_the_topic_is_lost_before_the_answer() -> None:
    model = Model(["ewr", "ord"])
    checker = cast("Checker", SimpleNamespace(look_at_log=lambda _: None))
    lifetimes = Lifetimes(model, checker, lambda *_: None)
    progress = SimpleNamespace(state=SimpleNamespace(epoch=FIRST_EPOCH))
    created = SimpleNamespace(name="worker", progress=progress, cursor=SimpleNamespace(began=EARLIEST))

    def replica(*subscriptions: SimpleNamespace) -> Replica:
        topic = SimpleNamespace(subscriptions={each.name: each for each in subscriptions})
        return cast("Replica", SimpleNamespace(cluster="ord", topic=topic, is_unloading=False, crashes=0))

    request = lifetimes.subscribe(replica(), "worker")
    assert request is not None
    request()
    lifetimes.look_at(replica(created))
    assert model.lifetime("ord", "worker", FIRST_EPOCH).starts == [{}]
    model.lose("ord")
    lifetimes.lose("ord")
    lifetimes.look_at(replica(created))
    assert model.lifetime("ord", "worker", FIRST_EPOCH).starts == [{}, {}]
