"""A broker whose clients may set the fields of a replicator, so that a test can write any log of a target."""

from __future__ import annotations

import sys
from typing import ClassVar
from unittest.mock import patch

from magnetar.broker.session import checks
from magnetar.cli.main import main
from tests.kit.broker import Broker


class ForgingBroker(Broker):
    """A broker that stores stamped entries of clients like their own."""

    module: ClassVar[str] = "tests.kit.forging_broker"


if __name__ == "__main__":
    with patch.object(checks, "_OF_CLUSTERS", ()):
        sys.exit(main())
