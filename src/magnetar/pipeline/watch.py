"""A thread that asks clusters from time to time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Mapping


def admin_client(url: str) -> AdminClient:
    """Return a client of the cluster with this admin URL, with the pipeline's timeout."""
    return AdminClient(url, timeout_s=limits.ADMIN_TIMEOUT_SECONDS)


class Watch(ABC):
    """Asks by ``clients``, which are its own, in a thread of its own."""

    def __init__(self, name: str, interval_s: float, clients: Mapping[str, AdminClient]) -> None:
        """Ask every ``interval_s`` seconds; `start` begins. The clients are by cluster."""
        self._clients = clients
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; waits for a request under way, at most its timeout."""
        self._stopped.set()
        if self._thread.is_alive():  # not where nothing was started
            self._thread.join()
        for client in self._clients.values():
            client.close()

    @abstractmethod
    def _ask_all(self) -> None:
        """Ask once; called in the thread."""

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._ask_all()
