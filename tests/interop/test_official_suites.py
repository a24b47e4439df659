"""The tests of TLS and authentication that the official Python and Go clients have of their own, against our broker.

The suites expect a broker at fixed ports of this machine, with their certificates, keys and namespaces. That of Python
is in the repository of the client: PULSAR_CLIENT_PYTHON names a directory with it; without that, git fetches it. That
of Go is in the module of the client, which Go downloads.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import jwt
import pytest

from tests.interop.schema_clients import SOURCES
from tests.kit.broker import Broker
from tests.kit.child import LOOPBACK, is_free
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1500)]

PORTS: Final = {
    "brokerServicePort": 6650,
    "brokerServicePortTls": 6651,
    "webServicePort": 8080,
    "webServicePortTls": 8443,
}
"""Ports that the suites expect."""

TIMEOUT_S: Final = 1200.0

ABOUT: Final = re.compile(r"(?i)tls|https|auth|token")
"""Names of tests of TLS and authentication."""

PYTHON_REPOSITORY: Final = "https://github.com/apache/pulsar-client-python"

GO_MODULE: Final = "github.com/apache/pulsar-client-go"

PASSED_AT_LEAST: Final = 10
GO_PASSED_AT_LEAST: Final = 30
"""Tests that the suites have now, so that a changed name does not leave all of them out."""


@contextmanager
def broker_of(directory: Path, certificates: Path, files: Mapping[str, Path], secret: bytes) -> Iterator[Broker]:
    """Start a broker as the scripts of the suites do, and make their tenants, namespaces and permissions."""
    taken = [port for port in PORTS.values() if not is_free(port)]
    if taken:
        pytest.skip(f"the suites need the ports {taken}, which another program uses")
    package = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    settings = {
        **PORTS,
        "advertisedAddress": "localhost",
        "tlsCertificateFilePath": certificates / "broker-cert.pem",
        "tlsKeyFilePath": certificates / "broker-key.pem",
        "tlsTrustCertsFilePath": certificates / "cacert.pem",
        "authenticationEnabled": "true",
        "authenticationProviders": ",".join(f"{package}{name}" for name in ("Tls", "Token", "Basic")),
        "authorizationEnabled": "true",
        "anonymousUserRole": "anonymous",
        "tokenSecretKey": f"file://{files['secret']}",
        "basicAuthConf": files["passwords"],
        "superUserRoles": "localhost,superUser,admin",
    }
    broker = Broker(directory, settings=settings)
    broker.admin_url = f"http://{LOOPBACK}:{PORTS['webServicePort']}"
    broker.rest.close()
    broker.rest = Rest(broker.admin_url)
    broker.rest.authorize(jwt.encode({"sub": "superUser"}, secret, "HS256"))
    with broker:
        broker.rest.ensure("tenants/private", {"adminRoles": [], "allowedClusters": [broker.cluster]})
        broker.rest.post("tenants/public", {"adminRoles": ["anonymous"], "allowedClusters": [broker.cluster]})
        for namespace, role in (("public/default", "anonymous"), ("private/auth", "token-principal")):
            broker.rest.ensure(f"namespaces/{namespace}", {})
            broker.rest.post(f"namespaces/{namespace}/permissions/{role}", ["produce", "consume"])
        yield broker


@pytest.fixture(scope="module")
def python_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the tests of the Python client."""
    given = os.environ.get("PULSAR_CLIENT_PYTHON")
    sources = tmp_path_factory.mktemp("python") / "sources"
    if given:
        shutil.copytree(given, sources)
    else:
        tag = f"v{version('pulsar-client')}"
        command = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, PYTHON_REPOSITORY, str(sources)]
        cloned = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if cloned.returncode != 0:
            pytest.skip(f"no sources of the Python client; set PULSAR_CLIENT_PYTHON: {cloned.stderr.strip()}")
    return sources / "tests"


def names_in(file: Path) -> list[str]:
    """Return the tests of TLS and authentication in a module of the Python suite."""
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    return [
        f"{file.stem}.{each.name}.{node.name}"
        for each in classes
        for node in each.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and ABOUT.search(node.name)
    ]


def test_the_suite_of_the_python_client(python_suite: Path, tmp_path: Path) -> None:
    """The tests of OAuth 2 are left out: they start a server for it in Docker."""
    secret, certificates = os.urandom(64), python_suite / "test-conf"
    (tmp_path / "secret.key").write_bytes(secret)
    (python_suite / ".test-token.txt").write_text(jwt.encode({"sub": "token-principal"}, secret, "HS256"))
    files = {"secret": tmp_path / "secret.key", "passwords": certificates / ".htpasswd"}
    names = [name for file in ("pulsar_test.py", "asyncio_test.py") for name in names_in(python_suite / file)]
    with broker_of(tmp_path / "broker", certificates, files, secret):
        command = [sys.executable, "-m", "unittest", "--verbose", *names]
        ended = subprocess.run(
            command, cwd=python_suite, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    print(f"{len(names)} tests of the Python client: {' '.join(names)}")  # noqa: T201 - shown by -rP
    assert ended.returncode == 0, ended.stderr[-10_000:]
    assert len(names) >= PASSED_AT_LEAST


@pytest.fixture(scope="module")
def go_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the module of the Go client, in the version that our Go program uses."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the suite of the Go client needs Go (Debian, Ubuntu: apt install golang)")
    command = [go, "mod", "download", "-json", GO_MODULE]
    found = subprocess.run(command, cwd=SOURCES / "go", capture_output=True, timeout=300, check=True)
    sources = tmp_path_factory.mktemp("go") / "sources"
    # Go keeps modules read-only.
    shutil.copytree(json.loads(found.stdout)["Dir"], sources, copy_function=shutil.copyfile)
    for directory, _, _ in os.walk(sources):
        Path(directory).chmod(0o755)
    return sources


def test_the_suite_of_the_go_client(go_suite: Path, tmp_path: Path) -> None:
    """OAuth 2 is included: its tests have a server, whose token is signed with the secret key of the suite."""
    kit = go_suite / "integration-tests"
    declared = re.findall(r"(?m)^func (Test\w+)\(", (go_suite / "pulsar" / "client_impl_test.go").read_text())
    names = [name for name in declared if ABOUT.search(name)]
    files = {"secret": kit / "tokens" / "secret.key", "passwords": kit / "conf" / ".htpasswd"}
    with broker_of(tmp_path / "broker", kit / "certs", files, files["secret"].read_bytes()):
        command = ["go", "test", "./pulsar", "-count", "1", "-v", "-run", f"^({'|'.join(names)})$"]
        ended = subprocess.run(command, cwd=go_suite, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    passed = re.findall(r"(?m)^--- PASS: (\w+)", ended.stdout)
    print(f"{len(passed)} tests of the Go client: {' '.join(passed)}")  # noqa: T201 - shown by -rP
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-10_000:]
    assert sorted(passed) == sorted(names)
    assert len(names) >= GO_PASSED_AT_LEAST
