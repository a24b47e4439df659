from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from magnetar.demo.flights import AIRPORTS, FLIGHTS, data_file, read_flights


def test_the_first_flight_of_the_year() -> None:
    (flight,) = read_flights(data_file(), 1)
    assert (flight.number, flight.origin, flight.tail_number) == (0, "ewr", "N14228")
    assert flight.row == b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
    assert datetime.fromtimestamp(flight.scheduled_ms / 1000, UTC).isoformat() == "2013-01-01T10:15:00+00:00"


def test_all_flights_are_there_each_with_a_number_of_its_own() -> None:
    flights = list(read_flights(data_file(), FLIGHTS + 1))
    assert [flight.number for flight in flights] == list(range(FLIGHTS))
    origins = Counter(flight.origin for flight in flights)
    assert origins == {"ewr": 120_835, "jfk": 111_279, "lga": 104_662}
    assert sum(flight.tail_number is None for flight in flights) == 2_512


def test_the_airports_share_the_flights_between_them() -> None:
    shares = [{flight.number for flight in read_flights(data_file(), 500, origin)} for origin in AIRPORTS]
    assert set.union(*shares) == set(range(500))
    assert sum(map(len, shares)) == 500
