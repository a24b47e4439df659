"""One ``magnetar up`` for the whole suite, and a replicated namespace for each test."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.kit.clusters import Up

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three clusters and the pipeline."""
    with Up(tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.fixture
def namespace(up: Up) -> str:
    """A namespace replicated between all three clusters."""
    name = f"geo/{secrets.token_hex(4)}"
    up.make_namespace(name)
    return name


@pytest.fixture
def topic(namespace: str) -> str:
    """A topic in the namespace."""
    return f"persistent://{namespace}/t"
