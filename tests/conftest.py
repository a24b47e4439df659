"""Markers and common fixtures of the suites."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog

from tests.kit.broker import Broker
from tests.kit.messages import connect
from tests.kit.parallel import SHARED_CLUSTERS, unit_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pulsar


def pytest_configure() -> None:
    """Let no test fail because the machine is busy.

    Logged tracebacks are plain, because the coloured ones with the variables of each frame take up to a second.
    """
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, renderer])
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes, start with the longest unit."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: unit_of(item.nodeid) != SHARED_CLUSTERS)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_make_scheduler() -> Generator[None, Any, Any]:
    """Let ``--dist loadscope`` distribute units."""
    scheduler = yield
    scheduler._split_scope = unit_of
    return scheduler


@pytest.fixture(scope="session", autouse=True)
def no_profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the command line away from the profiles and variables of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        # processes of pytest-xdist have COLUMNS
        for variable in ("MAGNETAR_ADMIN_URL", "MAGNETAR_CLUSTER", "PULSAR_CLIENT_CONF", "COLUMNS"):
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker with default settings, shared by tests that do not disturb it."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[pulsar.Client]:
    """An official client of the shared broker."""
    connected = connect(broker.service_url)
    yield connected
    connected.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique topic name."""
    test = re.sub(r"\W+", "-", request.node.name).strip("-")
    return f"persistent://public/default/{test}-{secrets.token_hex(3)}"


@pytest.fixture
def namespace(broker: Broker) -> str:
    """A namespace for one test."""
    name = f"public/{secrets.token_hex(4)}"
    broker.rest.put(f"namespaces/{name}", {})
    return name
