from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from magnetar.ops.layout import LOOPBACK, LocalCluster
from magnetar.ops.records import introduce, is_healthy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIX = "/admin/v2/"


class Store(ThreadingHTTPServer):
    """A fake admin API: PUT creates once, POST replaces, GET reads."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), Handler)
        self.values: dict[str, Any] = {}
        self.healthy = True


class Handler(BaseHTTPRequestHandler):
    server: Store

    def answer(self, status: int, value: object = None) -> None:
        body = json.dumps(value).encode() if value is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def given(self) -> tuple[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        return self.path.removeprefix(PREFIX), json.loads(self.rfile.read(length) or b"null")

    def do_GET(self) -> None:
        path, _ = self.given()
        if path == "brokers/health":
            self.answer(200 if self.server.healthy else 500, "ok")
        else:
            self.answer(200, self.server.values[path])

    def do_PUT(self) -> None:
        path, value = self.given()
        if path in self.server.values:
            self.answer(409, {"reason": "already exists"})
        else:
            self.server.values[path] = value
            self.answer(204)

    def do_POST(self) -> None:
        path, value = self.given()
        self.server.values[path] = value
        self.answer(204)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def store() -> Iterator[Store]:
    with Store() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def cluster(name: str, server: Store, directory: Path) -> LocalCluster:
    return LocalCluster(name, 1, server.server_port, directory)


def test_every_cluster_hears_of_every_cluster(tmp_path: Path) -> None:
    with store() as first, store() as second:
        clusters = [cluster("ewr", first, tmp_path), cluster("jfk", second, tmp_path)]
        introduce(clusters)
        for server, name in ((first, "ewr"), (second, "jfk")):
            assert server.values["clusters/jfk"] == {
                "serviceUrl": f"http://127.0.0.1:{second.server_port}",
                "brokerServiceUrl": "pulsar://127.0.0.1:1",
            }
            assert server.values["tenants/public"] == {"adminRoles": [], "allowedClusters": ["ewr", "jfk"]}
            assert server.values["namespaces/public/default"] == {"replication_clusters": [name]}


def test_a_second_time_changes_only_what_became_wrong(tmp_path: Path) -> None:
    with store() as server:
        introduce([cluster("ewr", server, tmp_path)])
        server.values["namespaces/public/default"] = {"replication_clusters": ["ewr", "far"]}
        server.values["tenants/public"] = {"adminRoles": ["me"], "allowedClusters": ["far"]}
        server.values["clusters/ewr"] = {"serviceUrl": "http://old"}
        introduce([cluster("ewr", server, tmp_path)])
        assert server.values["namespaces/public/default"] == {"replication_clusters": ["ewr", "far"]}
        assert server.values["tenants/public"] == {"adminRoles": ["me"], "allowedClusters": ["far", "ewr"]}
        assert server.values["clusters/ewr"]["serviceUrl"] == f"http://127.0.0.1:{server.server_port}"


def test_health_is_what_the_broker_says(tmp_path: Path) -> None:
    with store() as server:
        ewr = cluster("ewr", server, tmp_path)
        assert is_healthy(ewr)
        server.healthy = False
        assert not is_healthy(ewr)
    assert not is_healthy(ewr)
