"""Connections of a job to a cluster, by the functions of the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.spark.options import Options

if TYPE_CHECKING:
    from magnetar.pipeline.options import ClusterAddress


def options_of(cluster: ClusterAddress) -> Options:
    """Return the addresses of a cluster, and the path of its credentials, as tasks need them."""
    return Options(service_url=cluster.broker_url, admin_url=cluster.admin_url, client_conf=cluster.client_conf)
