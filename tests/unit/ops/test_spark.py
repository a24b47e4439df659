from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.ops.spark import require_spark


def test_says_how_to_install_what_is_missing() -> None:
    with pytest.raises(ConfigurationError, match=r"PySpark is not installed\nhint: pip install 'magnetar\[pipeline\]'"):
        require_spark({}, find=lambda _: None)
    with pytest.raises(ConfigurationError, match=r"no java on the PATH\nhint: install Java"):
        require_spark({"PATH": "/nowhere"}, find=lambda name: name)
