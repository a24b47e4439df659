"""A thread that polls clusters periodically."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.pipeline import limits
from magnetar.security.client_conf import credentials_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.pipeline.options import ClusterAddress


def admin_client(cluster: ClusterAddress) -> AdminClient:
    """Return a client for the admin API of a cluster, with its credentials and the pipeline's time-out.

    Raises ConfigurationError if the credentials cannot be read.
    """
    credentials = credentials_in(cluster.client_conf)
    return AdminClient(cluster.admin_url, timeout_s=limits.ADMIN_TIMEOUT_SECONDS, credentials=credentials)


class Watch(ABC):
    """Polls with ``clients``, which it owns, in a thread of its own."""

    def __init__(self, name: str, interval_s: float, clients: Mapping[str, AdminClient]) -> None:
        """Poll every ``interval_s`` seconds; `start` starts the thread. The clients are by cluster."""
        self._clients = clients
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling; waits for a pending request, at most its time-out."""
        self._stopped.set()
        if self._thread.is_alive():  # false if nothing was started
            self._thread.join()
        for client in self._clients.values():
            client.close()

    @abstractmethod
    def _ask_all(self) -> None:
        """Poll once; called in the thread."""

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._ask_all()
