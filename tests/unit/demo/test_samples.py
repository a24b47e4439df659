from __future__ import annotations

from magnetar.demo.samples import Percentiles, Samples


def test_nearest_ranks() -> None:
    samples = Samples()
    samples.add(range(100, 0, -1))
    assert samples.percentiles() == Percentiles(50.0, 99.0, 100)


def test_one_sample_is_every_percentile() -> None:
    samples = Samples()
    samples.add([7.5])
    assert samples.percentiles() == Percentiles(7.5, 7.5, 1)


def test_nothing_measured() -> None:
    assert Samples().percentiles() == Percentiles(0.0, 0.0, 0)


def test_the_worst_of_several() -> None:
    assert Percentiles.worst([Percentiles(1.0, 9.0, 3), Percentiles(2.0, 5.0, 4)]) == Percentiles(2.0, 9.0, 7)
    assert Percentiles.worst([]) == Percentiles(0.0, 0.0, 0)
