"""Free TCP ports that no two jobs on this machine pick, without holding the port itself.

A reserved port must stay free for the process that will listen on it, so it cannot be bound here. The lock is the UDP
port of the same number on loopback, bound by the supervisor: the kernel lets one process have it, across users and
state directories, and frees it when that process ends, however it ends. Ports lie below the range from which the kernel
picks ports for outgoing connections, so only a program that asks for the very number can take one; such a port is
seen as busy when it is picked.
"""

import errno
import socket
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from trainyard.contract.errors import TransientError

FIRST_PORT: Final = 20000
_DEFAULT_LAST_PORT: Final = 29999
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class PortReservation:
    """Ports held for one job until `close`."""

    def __init__(self) -> None:
        self._locks: list[socket.socket] = []
        self._taken: set[int] = set()

    def take(self, seed: str, *, avoid: Collection[int] = ()) -> int:
        """Reserve a free port; the search starts at a number that depends on the seed only."""
        last = _last_port()
        count = last - FIRST_PORT + 1
        start = zlib.crc32(seed.encode()) % count
        for offset in range(count):
            port = FIRST_PORT + (start + offset) % count
            if port in avoid or port in self._taken:
                continue
            lock = _lock(port)
            if lock is None:
                continue
            if not _is_free(port):
                lock.close()
                continue
            self._locks.append(lock)
            self._taken.add(port)
            return port
        raise TransientError(f"reserve a port for {seed}: every port from {FIRST_PORT} to {last} is in use")

    def close(self) -> None:
        """Give all ports back."""
        while self._locks:
            self._locks.pop().close()
        self._taken.clear()


def _last_port() -> int:
    try:
        first_ephemeral = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _DEFAULT_LAST_PORT
    return first_ephemeral - 1 if first_ephemeral > FIRST_PORT + 1000 else _DEFAULT_LAST_PORT


def _lock(port: int) -> socket.socket | None:
    lock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        lock.bind(("127.0.0.1", port))
    except OSError:
        lock.close()
        return None
    return lock


def _is_free(port: int) -> bool:
    """Say whether a server could listen on every address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    continue  # No IPv6 on this machine.
                return False
    return True
