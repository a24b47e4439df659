"""The recorded scenarios: each is an application's use of the official client.

Scenarios send little at a time and wait for the results, so that recordings do not depend on timing.
"""

from tests.golden.scenarios import consuming, moving, publishing
from tests.golden.stage import SCENARIOS

__all__ = ["SCENARIOS", "consuming", "moving", "publishing"]
