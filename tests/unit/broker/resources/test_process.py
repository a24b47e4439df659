"""The limits of a process: open files, and so connections, and memory."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from magnetar.broker.resources.process import (
    DESCRIPTORS_RESERVED,
    connections_max,
    machine_memory_bytes,
    raise_descriptor_limit,
    resident_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path


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


def test_the_memory_of_a_machine_without_control_groups_is_all_of_it(tmp_path: Path) -> None:
    assert machine_memory_bytes(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/\n", {"memory.max": "1000"}),
        ("0::/a/b\n", {"memory.max": "max", "a/memory.max": "1000", "a/b/memory.max": "2000"}),
        ("0::/of/the/host\n", {"memory.max": "1000"}),
        ("3:cpu,memory:/a\n1:cpu:/\n", {"memory/a/memory.limit_in_bytes": "1000", "memory.max": "10"}),
    ],
)
def test_a_control_group_limits_the_memory(tmp_path: Path, groups: str, files: dict[str, str]) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert machine_memory_bytes(tmp_path) == 1000


def test_a_process_knows_its_resident_memory() -> None:
    assert 10_000_000 < resident_bytes() < 100_000_000_000
