"""The differences of output that belong to the other answers in the compatibility matrix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_BROKER_STATS = "/admin/v2/broker-stats"
_SWITCH = r"cursors\.s\.lastLedgerSwitchTimestamp: str"

TEXTS: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("GET", "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"): re.compile(r"ok; in Apache Pulsar 404 .*"),
    ("GET", f"{_TOPIC}/internal-info"): re.compile(r"lacks (\.cursors\.s\.(creation|modification)Date: str(, )?){2}"),
    ("GET", f"{_TOPIC}/internalStats"): re.compile(rf"lacks \.{_SWITCH}"),
    ("GET", f"{_TOPIC}/partitioned-internalStats"): re.compile(rf"lacks \.partitions\.\*\.{_SWITCH}"),
    ("GET", f"{_TOPIC}/subscriptionTypesEnabled"): re.compile(r"prints '\[ \]\\n'; Apache Pulsar 'null\\n'"),
    ("GET", f"{_BROKER_STATS}/allocator-stats/{{allocator}}"): re.compile(
        r"lacks (\.(direct|heap)Arenas\[\]\S+: \w+(, )?)+"
    ),
    ("GET", f"{_BROKER_STATS}/load-report"): re.compile(
        r"lacks (\.last(BundleGains\[\]|BundleLosses\[\]|Stats\.\*\.\w+): \w+, )+\.loadManagerClassName: str"
    ),
    ("GET", f"{_BROKER_STATS}/mbeans"): re.compile(r"lacks \[\]\.dimensions\.MBean: str, \[\]\.metrics\..*"),
    ("GET", f"{_BROKER_STATS}/topics"): re.compile(r"lacks (\.\*\.\*\.persistent\.\*\.\S+: \w+(, )?)+"),
}
"""The form of each difference, as ``difference`` describes it, by method and path."""
