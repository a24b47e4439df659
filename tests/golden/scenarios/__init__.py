"""What is recorded: each scenario is what an application does with the official client.

Scenarios say little at a time and wait for what they asked for, so that a recording holds what matters and not who was
quicker.
"""

from tests.golden.scenarios import consuming, moving, publishing
from tests.golden.stage import SCENARIOS

__all__ = ["SCENARIOS", "consuming", "moving", "publishing"]
