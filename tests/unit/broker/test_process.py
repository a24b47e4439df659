"""How many connections the open files of a process allow."""

from __future__ import annotations

import resource

import pytest

from magnetar.broker.process import DESCRIPTORS_RESERVED, connections_max, raise_descriptor_limit


@pytest.mark.parametrize(
    ("configured", "descriptors", "allowed"),
    [
        ((10_000, 2048), 1 << 20, (10_000, 2048)),
        ((10_000, 2048), 8 * 2048 + DESCRIPTORS_RESERVED, (10_000, 2048)),
        ((10_000, 10), 10_010 + DESCRIPTORS_RESERVED, (10_000, 10)),
        ((10_000, 2048), 10_000 + DESCRIPTORS_RESERVED, (8750, 1250)),
        ((10_000, 2048), 1024, (672, 96)),
        ((10_000, 2048), 256, (112, 16)),
        ((1, 1), 1024, (1, 1)),
        ((10_000, 2048), 1, (1, 1)),
    ],
)
def test_connections_leave_files_for_the_broker(
    configured: tuple[int, int], descriptors: int, allowed: tuple[int, int]
) -> None:
    assert connections_max(*configured, descriptors) == allowed


def test_a_process_gets_as_many_open_files_as_the_system_grants() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        granted = raise_descriptor_limit()
        assert granted == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 512
        assert raise_descriptor_limit() == granted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
