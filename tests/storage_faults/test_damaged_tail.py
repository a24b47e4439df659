"""A broker whose newest, unsealed segment has a flipped bit in synced data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.base.errors import CorruptionError
from magnetar.broker.settings.data_directory import LEDGERS
from magnetar.cli.main import main
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.medium.local_segment import LocalSegmentReader
from magnetar.ledger.segments.recovery import survey
from magnetar.ledger.segments.segment import read_footer
from magnetar.sim.virtual.disk import FaultyDisk
from tests.kit.in_process import BrokerInProcess
from tests.kit.messages import connect, publish, read_log, receive_data

if TYPE_CHECKING:
    from pathlib import Path

DAMAGED, SOUND = "persistent://public/default/damaged", "persistent://public/default/sound"
PAYLOADS = [b"payload %d of the topic" % number for number in range(6)]


def killed_broker(directory: Path) -> FaultyDisk:
    """Return the disk of a broker that was killed while sealing the segment, with two topics of six messages each."""
    disk = FaultyDisk()
    with BrokerInProcess(directory, disk) as broker:
        client = connect(broker.service_url)
        for topic in (DAMAGED, SOUND):
            publish(client, topic, PAYLOADS, batching_enabled=False)
        client.close()
    path = max(path for path in disk.nodes if path.name.startswith("segment-"))
    file = disk.open(path)
    footer = run_blocking(read_footer, LocalSegmentReader(path, file), int(path.stem[-16:]))
    assert footer is not None
    file.truncate(footer.place.offset)
    file.sync()
    file.close()
    return disk


def repair(directory: Path, disk: FaultyDisk, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run ``magnetar check --repair`` with the contents of ``disk``; return the exit code and the output."""
    for path, node in disk.nodes.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(node.data))
    code = main(["check", str(directory), "--repair"])
    return code, capsys.readouterr().err


def segment_of(disk: FaultyDisk) -> bytearray:
    return next(node.data for node in disk.nodes.values() if PAYLOADS[0] in node.data)


def test_a_flipped_bit_costs_the_message_that_it_is_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = killed_broker(tmp_path)
    segment_of(disk)[bytes(segment_of(disk)).index(PAYLOADS[3])] ^= 0x04
    code, said = repair(tmp_path, disk, capsys)
    assert code == 1
    assert f"lost: {DAMAGED}: 1 entries" in said
    assert "a broker starts with damaged entries" in said
    assert "skip-entries" in said
    rest = [*PAYLOADS[:3], *PAYLOADS[4:]]
    for again in range(2):  # the second start reads a segment that was sealed with the damage
        with BrokerInProcess(tmp_path, disk) as broker:
            client = connect(broker.service_url)
            assert [message.data() for message in read_log(client, SOUND)] == PAYLOADS
            consumer = client.subscribe(DAMAGED, f"sub-{again}", initial_position=pulsar.InitialPosition.Earliest)
            assert receive_data(consumer, len(rest)) == rest
            publish(client, DAMAGED, [b"more"])
            assert receive_data(consumer, 1) == [b"more"]
            assert broker.rest.is_healthy()
            stats = broker.rest.request("GET", f"persistent/{DAMAGED.removeprefix('persistent://')}/stats").json()
            assert stats["damagedEntries"] == 1
            client.close()
        rest.append(b"more")


def test_a_flipped_bit_in_the_head_of_a_record_refuses_the_start_and_says_where_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = killed_broker(tmp_path)
    data = segment_of(disk)
    record_at = bytes(data).rindex(b"MgRc", 0, bytes(data).index(PAYLOADS[3]))
    data[record_at + 33] ^= 0x01  # a ledger id
    with pytest.raises(CorruptionError, match=rf"offset {record_at}: .* restore the data directory from a copy"):
        run_blocking(survey, LocalMedium(tmp_path / LEDGERS, disk))
    code, said = repair(tmp_path, disk, capsys)
    assert code == 1
    assert f"offset {record_at}: broken record" in said
    assert "a broker starts with damaged entries" not in said
