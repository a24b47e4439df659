"""The division of a broker's memory, and refused configurations."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.broker.resources.memory_limits import PROCESS_BYTES, memory_limits
from magnetar.broker.settings.config import BrokerConfig

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("machine_bytes", "total_mb"), [(24 * GIB, 1024), (4 * GIB, 1024), (2 * GIB, 512), (512 * MIB, 192), (1, 192)]
)
def test_the_limit_is_derived_from_the_machine(machine_bytes: int, total_mb: int) -> None:
    limits = memory_limits(BrokerConfig(), machine_bytes)
    assert limits.total == total_mb * MIB
    assert limits.shares + PROCESS_BYTES <= limits.total


def test_shares_follow_the_limit() -> None:
    limits = memory_limits(BrokerConfig(memoryLimitMB=2048), 1 * GIB)
    assert (limits.total, limits.publishes, limits.sending) == (2 * GIB, 2 * GIB // 24, 256 * MIB)


def test_a_share_that_is_configured_holds() -> None:
    config = BrokerConfig(maxMessagePublishBufferSizeInMB=300, managedLedgerCacheSizeMB=0)
    limits = memory_limits(config, 24 * GIB)
    assert (limits.publishes, limits.cache) == (300 * MIB, 0)


def test_shares_that_do_not_fit_are_refused_by_name() -> None:
    config = BrokerConfig(memoryLimitMB=256, managedLedgerCacheSizeMB=500)
    with pytest.raises(ConfigurationError, match=r"memoryLimitMB=256 is less than the \d+ MB .*caches 504"):
        memory_limits(config, 24 * GIB)


def test_a_publish_buffer_that_cannot_hold_the_largest_frame_is_refused() -> None:
    config = BrokerConfig(maxMessageSize=50 * MIB, maxMessagePublishBufferSizeInMB=100)
    with pytest.raises(ConfigurationError, match="maxMessagePublishBufferSizeInMB=100: must be at least 201"):
        memory_limits(config, 24 * GIB)


def test_send_buffers_that_cannot_hold_two_connections_and_their_messages_are_refused() -> None:
    config = BrokerConfig(connectionSendBufferBytes=50 * MIB, maxSendBuffersSizeInMB=100)
    with pytest.raises(ConfigurationError, match="maxSendBuffersSizeInMB=100: must be at least 111"):
        memory_limits(config, 24 * GIB)


def test_a_larger_message_makes_the_derived_publish_buffer_larger() -> None:
    assert memory_limits(BrokerConfig(maxMessageSize=50 * MIB), 24 * GIB).publishes > 200 * MIB
