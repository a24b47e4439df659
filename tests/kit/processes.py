"""Information about processes from /proc: their tree, commands, connections and costs."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _CPU, _OWN_CPU = 0, 1, slice(11, 15), slice(11, 13)
"""Fields of /proc/<pid>/stat after the name: state, parent, and user and system time with those of ended children."""

_LOCAL, _REMOTE, _CONNECTION, _INODE = 1, 2, 3, 9
"""Fields of /proc/<pid>/net/tcp: both addresses with ports, state of the connection, inode of the socket."""

_ESTABLISHED, _LISTENING = "01", "0A"
_HELD_BY_SERVER = (_ESTABLISHED, "03", "08")
"""States of connections on the server's side: established, SYN received, closed by the peer only."""


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(pid: int) -> list[int]:
    """Return all processes below ``pid``, without itself and without zombies, in no particular order."""
    children: dict[int, list[int]] = {}
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdecimal() and (stat := _stat(int(entry.name))) and stat[_STATE] != "Z":
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def command_line(pid: int) -> str:
    """Return the command line of ``pid``, empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def find(below: int, *words: str) -> list[int]:
    """Return the processes below ``below`` whose command line contains all ``words``."""
    return [pid for pid in descendants(below) if all(word in command_line(pid) for word in words)]


def connected_ports(pid: int) -> set[int]:
    """Return the remote ports of the TCP connections (IPv4) of ``pid``; none if it does not exist."""
    return _ports(pid, ("tcp",), _REMOTE)


def local_ports(pid: int) -> set[int]:
    """Return the local ports of the TCP connections (IPv4 and IPv6) of ``pid``; none if it does not exist."""
    return _ports(pid, ("tcp", "tcp6"), _LOCAL)


def _ports(pid: int, tables: Sequence[str], column: int) -> set[int]:
    try:
        inodes = _socket_inodes(pid)
        texts = [Path(f"/proc/{pid}/net/{table}").read_text(encoding="utf-8") for table in tables]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    rows = [line.split() for text in texts for line in text.splitlines()[1:]]
    return {
        int(row[column].rpartition(":")[2], 16)
        for row in rows
        if row[_INODE] in inodes and row[_CONNECTION] == _ESTABLISHED
    }


def is_alive(pid: int) -> bool:
    """Return whether ``pid`` exists and is no zombie."""
    stat = _stat(pid)
    return stat is not None and stat[_STATE] != "Z"


def cpu_seconds(pid: int) -> float:
    """Return the processor time of ``pid`` and all processes below it, including ended children."""
    total = 0
    for each in [pid, *descendants(pid)]:
        if (stat := _stat(each)) is not None:
            total += sum(map(int, stat[_CPU]))
    return total / _TICKS_PER_SECOND


def own_cpu_seconds(pid: int) -> float:
    """Return the processor time of ``pid`` alone, without its children; 0 if it does not exist any more."""
    stat = _stat(pid)
    return sum(map(int, stat[_OWN_CPU])) / _TICKS_PER_SECOND if stat is not None else 0.0


def resident_bytes(pid: int) -> int:
    """Return the resident memory of ``pid`` itself."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kibibytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kibibytes) * 1024


def pss_bytes(pid: int) -> int:
    """Return the memory of ``pid`` itself, with its share of each page that several processes have; 0 if it ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0
    return 1024 * next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


def peak_resident_bytes(pid: int) -> int:
    """Return the largest resident memory of ``pid`` itself since ``reset_peak``, or since its start."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kibibytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(kibibytes) * 1024


def reset_peak(pid: int) -> None:
    """Reset ``peak_resident_bytes``."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def descriptors(pid: int) -> Counter[str]:
    """Count the descriptors of ``pid`` by kind: ``socket``, ``anon_inode``, ``pipe``; all others are ``file``."""
    kinds: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, separator, _ = link.readlink().name.partition(":")
        except FileNotFoundError:  # closed in the meantime
            continue
        kinds[kind if separator else "file"] += 1
    return kinds


def connections_to(port: int) -> int:
    """Return the number of TCP connections (IPv4) to a server on this machine at ``port``, accepted or not."""
    lines = Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split() for line in lines]
    return sum(int(row[_LOCAL].rpartition(":")[2], 16) == port and row[_CONNECTION] in _HELD_BY_SERVER for row in rows)


def other_sockets(pid: int, ports: Collection[int]) -> int:
    """Return the number of sockets of ``pid`` that are no connections (IPv4) to these ports of its own.

    A connection that is not accepted yet, or that opens or closes meanwhile, does not count.
    """
    connections = _inodes_at(ports)
    sockets = _socket_inodes(pid)
    return len(sockets - connections - _inodes_at(ports))


def _socket_inodes(pid: int) -> set[str]:
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            names.append(link.readlink().name)
    return {name.removeprefix("socket:[").removesuffix("]") for name in names if name.startswith("socket:[")}


def _inodes_at(ports: Collection[int]) -> set[str]:
    lines = Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split() for line in lines]
    at_ports = [row for row in rows if int(row[_LOCAL].rpartition(":")[2], 16) in ports]
    return {row[_INODE] for row in at_ports if row[_CONNECTION] != _LISTENING}


def waited_seconds(pid: int) -> float:
    """Return the seconds for which the main thread of ``pid`` has waited for a processor since its start."""
    return _waited_seconds(Path(f"/proc/{pid}"))


def waited_seconds_of_threads(pid: int) -> float:
    """Return the seconds for which all threads of ``pid`` together have waited for a processor since their starts.

    A thread that waits with the interpreter's lock stops the others.
    """
    return sum(map(_waited_seconds, Path(f"/proc/{pid}/task").iterdir()))


def _waited_seconds(process: Path) -> float:
    try:
        _, waited_ns, _ = (process / "schedstat").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended
        return 0.0
    return int(waited_ns) / 1e9
