"""The recorder, tested with Magnetar: its recordings are complete and can be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.frame import Frame
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden import record as recording
from tests.golden.proxy import Journal, RecordingProxy
from tests.golden.record import main, record
from tests.golden.replay import replay
from tests.golden.scenarios import SCENARIOS
from tests.golden.stage import Scenario
from tests.golden.transcript import Left, Operated, Passed, Said, Side, Transcript, from_text, name_of, to_text
from tests.kit.messages import numbered, publish
from tests.kit.pulsar_jars import PulsarUnavailableError
from tests.kit.raw import RawConnection, entry

if TYPE_CHECKING:
    from tests.golden.stage import Stage
    from tests.kit.broker import Broker

GONE = Left(Side.CLIENT, 1)


@pytest.mark.parametrize("name", ["produce_batched", "produce_to_partitions", "subscribe_shared", "unload"])
def test_recordings_of_magnetar_equal_its_output(broker: Broker, name: str) -> None:
    replay(from_text(to_text(record(broker, SCENARIOS[name]))))


def test_a_client_stays_with_the_proxy(broker: Broker) -> None:
    recorded = record(broker, Scenario(greet))
    said = [event for event in recorded.events if isinstance(event, Said)]
    assert [event.side for event in said if name_of(event.frame.command) == "SEND"] == [Side.CLIENT]
    (found,) = (event.frame.command for event in said if name_of(event.frame.command) == "LOOKUP_RESPONSE")
    assert found.lookupTopicResponse.brokerServiceUrl not in ("", broker.service_url)
    assert recorded.events[0] == Operated("namespace", ("public/greet",))
    assert recorded.events[-1] == GONE


def greet(stage: Stage) -> None:
    """One message."""
    publish(stage.client(), stage.topic(), numbered(1))


def test_a_broker_that_closes_is_seen_to_leave_first(broker: Broker) -> None:
    journal = Journal()
    with RecordingProxy(broker.service_url, journal) as proxy, RawConnection.connected(proxy.service_url) as client:
        client.send("SEND", entry(b"from nobody"), producer_id=7, sequence_id=0)
        assert client.is_closed_by_peer()
    assert journal.events[-1] == Left(Side.BROKER, 1)


def test_keep_alive_is_carried_and_not_noted(broker: Broker) -> None:
    journal = Journal()
    with RecordingProxy(broker.service_url, journal) as proxy, RawConnection.connected(proxy.service_url) as client:
        assert client.is_answering()
    assert [name_of(event.frame.command) for event in journal.events if isinstance(event, Said)] == [
        "CONNECT",
        "CONNECTED",
    ]


def test_only_long_silences_are_noted_with_all_the_time_that_has_passed() -> None:
    times = iter([0.0, 0.2, 0.4, 2.4, 2.5, 4.5])
    journal = Journal(lambda: next(times))
    for _ in range(5):
        journal.note(GONE)
    assert journal.events == [GONE, GONE, Passed(2400), GONE, GONE, Passed(2100), GONE]


@given(st.binary(max_size=400), st.text(max_size=20), st.integers(0, 2**64 - 1))
def test_a_transcript_comes_back_as_it_was_written(payload: bytes, text: str, number: int) -> None:
    send = pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=0, sequence_id=number))
    lookup = pb.CommandLookupTopic(topic=text, request_id=number)
    events = (
        Operated("namespace", ("public/n",)),
        Said(Side.CLIENT, 1, Frame(send, entry(payload, producer_name=text))),
        Said(Side.BROKER, 2, Frame(pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookupTopic=lookup), b"")),
        Passed(number),
        GONE,
    )
    transcript = Transcript("What is shown.", {"maxMessageSize": "2048"}, number, events)
    assert from_text(to_text(transcript)) == transcript


def test_an_entry_that_the_text_does_not_hold_is_not_written() -> None:
    send = pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=0, sequence_id=0))
    without_checksum = entry(b"x")[6:]
    transcript = Transcript("", {}, 0, (Said(Side.CLIENT, 1, Frame(send, without_checksum)),))
    with pytest.raises(ValueError, match="does not follow"):
        to_text(transcript)


def test_without_apache_pulsar_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unavailable(*_: object, **__: object) -> None:
        message = "Maven is missing: apt install maven"
        raise PulsarUnavailableError(message)

    monkeypatch.setattr(recording, "PulsarStandalone", unavailable)
    assert main(["produce_plain"]) == 1
    assert capsys.readouterr().err == "error: Maven is missing: apt install maven\n"


def test_an_unknown_scenario_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["produce_plain", "nonsense"]) == 2
    assert "no scenario nonsense" in capsys.readouterr().err
