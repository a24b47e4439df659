"""A fence also holds for a topic that cannot be loaded: the topic is deleted only when the fence is removed or over."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.fence_service import WantedFence
from magnetar.base.errors import AdminError
from magnetar.broker.admin.administration import Administration
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Put
from magnetar.sim.cluster import TOPIC, Cluster

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Literal

LEASE_S = 30.0


def administration(cluster: Cluster) -> Administration:
    return Administration(cluster.environment, cluster.domains, "")


def error_of(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> AdminError | None:
    task = cluster.loop.start(work)
    cluster.settle()
    error = task.exception()
    assert error is None or isinstance(error, AdminError)
    return error


def deletion(cluster: Cluster) -> AdminError | None:
    return error_of(cluster, administration(cluster).topics.delete(TOPIC, force=True))


def removal(cluster: Cluster, migration: str = "m", *, is_decision: bool = True) -> AdminError | None:
    return error_of(cluster, administration(cluster).fences.remove(TOPIC, migration, 1, is_decision=is_decision))


def fenced_and_damaged(*phases: Literal["settling", "closed", "final"]) -> Cluster:
    """Return a cluster with a fenced topic whose subscription has an unreadable record since a restart."""
    cluster = Cluster()
    cluster.client().subscribe()
    for phase in phases:
        wanted = WantedFence("m", 1, phase, LEASE_S)
        assert error_of(cluster, administration(cluster).fences.set(TOPIC, wanted, digests=False)) is None
    cluster.crash()
    commit_at_start(cluster.metadata, [Put(f"{managed_ledger_path(TOPIC)}/cursors/worker", b"[", None)])
    unavailable = error_of(cluster, administration(cluster).fences.get(TOPIC, digests=False))
    assert unavailable is not None
    assert "cannot be loaded" in str(unavailable)
    return cluster


def test_a_damaged_topic_that_is_fenced_is_deleted_after_the_removal_of_the_fence() -> None:
    cluster = fenced_and_damaged("settling", "closed", "final")
    refused = deletion(cluster)
    assert refused is not None
    assert refused.status == HTTPStatus.PRECONDITION_FAILED
    assert "is fenced by migration m (epoch 1, final)" in str(refused)
    assert cluster.topics.exists(TOPIC)
    assert removal(cluster) is None
    assert removal(cluster) is None, "a repeated removal is no error"
    assert deletion(cluster) is None
    assert not cluster.topics.exists(TOPIC)


def test_the_fence_of_a_damaged_topic_is_removed_by_its_migration_only() -> None:
    cluster = fenced_and_damaged("settling", "closed", "final")
    for error in (removal(cluster, "other"), removal(cluster, is_decision=False)):
        assert error is not None
        assert error.status == HTTPStatus.CONFLICT
    assert deletion(cluster) is not None


def test_a_damaged_topic_is_deleted_when_the_lease_of_its_fence_is_over() -> None:
    cluster = fenced_and_damaged("settling")
    assert deletion(cluster) is not None
    cluster.loop.advance(LEASE_S + 1)
    assert deletion(cluster) is None
    assert not cluster.topics.exists(TOPIC)
