from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.demo.flights import FLIGHTS
from magnetar.demo.run import FLIGHTS_MIN, Options, run
from magnetar.ops.layout import hold

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("flights", [FLIGHTS_MIN - 1, FLIGHTS + 1])
def test_refuses_a_number_of_flights_that_makes_no_story(tmp_path: Path, flights: int) -> None:
    with pytest.raises(ConfigurationError, match=f"--flights {flights}"):
        run(Options(tmp_path, flights))


def test_does_not_remove_data_that_is_in_use(tmp_path: Path) -> None:
    with hold(tmp_path / "data"), pytest.raises(ConfigurationError, match="in use by another magnetar up"):
        run(Options(tmp_path))
    assert (tmp_path / "data").exists()
