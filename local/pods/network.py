"""Names and ports of a job's pods on one machine: who listens where.

**Names.** Each pod has a loopback address of its own (on Linux any of 127.0.0.0/8 can be listened on; elsewhere all
have 127.0.0.1). Under a mount namespace a hosts file makes `<job>-<rjob>-<replica>-<index>.<subdomain>` resolve
to it; otherwise the name is replaced by the address in commands and environment (`network_text`).

**Ports.** A rendezvous listens on every address of the machine (torch's store does), so an address of one's own does
not keep two jobs apart: each pod's rendezvous port becomes a free one (`port_reservation`), under every isolation.
Rendezvous ports are 29500, which the plan writes, and those that the plan's or the user's variables and flags name
(`PET_MASTER_PORT`, `JAX_COORDINATOR_ADDRESS`, `TF_CONFIG`, `--rdzv_endpoint`, ...). Other ports stay: the program that
listens on them has the number in its own code, where no table can reach it.
"""

import socket
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trainyard.contract import names
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.port_reservation import PortReservation
from trainyard.local.pods.rendezvous import HOST_AND_PORT, OWN_HOSTS, PAIR, PORT_OF_ADDRESS, RENDEZVOUS_FLAG
from trainyard.local.pods.substitution import PortSubstitution

_CLUSTER_SUFFIXES: Final = ("", ".svc", ".svc.cluster.local")
_FIRST_OCTET: Final = 64
_ADDRESS_COUNT: Final = 128 * 256 * 254
"""Addresses from 127.64.0.1 to 127.191.255.254: away from those that systems use themselves (127.0.x.x)."""

LOCAL_DEFAULTS: Final = {
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
}
"""Environment that a pod has here unless it sets it: gloo would otherwise listen where the machine's own host name
points, which on a laptop is a network that comes and goes."""


@dataclass(frozen=True)
class Network:
    """Who listens where; made once for a job, before its first pod."""

    namespace: str
    addresses: Mapping[str, str]
    """Host name of a pod to its address."""
    subdomains: Mapping[str, str]
    """Host name of a pod to its subdomain."""
    ports: tuple[PortSubstitution, ...]
    names_in_text: bool
    """Whether names are replaced in text, because no hosts file can be mounted."""
    reservation: PortReservation

    @cached_property
    def host_of_name(self) -> dict[str, str]:
        """Give the pod's host name behind every form of its DNS name, and behind the short name."""
        known: dict[str, str] = {}
        for hostname, subdomain in self.subdomains.items():
            known[hostname] = hostname
            if subdomain:
                known[f"{hostname}.{subdomain}"] = hostname
                for suffix in _CLUSTER_SUFFIXES:
                    known[f"{hostname}.{subdomain}.{self.namespace}{suffix}"] = hostname
        return known

    @cached_property
    def address_of_name(self) -> dict[str, str]:
        """Give the address behind a pod's host name, short and with its subdomain."""
        return {
            name: self.addresses[host]
            for name, host in self.host_of_name.items()
            if name in (host, f"{host}.{self.subdomains[host]}")
        }

    @cached_property
    def _actual(self) -> dict[tuple[str, int], int]:
        return {(entry.hostname, entry.declared): entry.actual for entry in self.ports}

    def port(self, hostname: str, declared: int) -> int:
        """Give the port that a pod uses for a declared one; the declared one when it is not replaced."""
        return self._actual.get((hostname, declared), declared)

    def peers(self) -> tuple[str, ...]:
        """Name the pods as NO_PROXY does: by their domains, by their addresses where names are replaced."""
        if self.names_in_text:
            return tuple(dict.fromkeys(self.addresses.values()))
        return tuple(dict.fromkeys(f".{subdomain}" for subdomain in self.subdomains.values() if subdomain))

    def hosts_file(self) -> str:
        """Write the job's /etc/hosts: the machine's own entries, then the pods."""
        try:
            own = Path("/etc/hosts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            own = "127.0.0.1 localhost\n::1 localhost\n"
        lines = [own.rstrip("\n"), "", "# Pods of this job."]
        for hostname, address in self.addresses.items():
            forms = [name for name, host in self.host_of_name.items() if host == hostname]
            lines.append(f"{address}\t{' '.join(sorted(forms, key=lambda name: (name == hostname, len(name))))}")
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Give the ports back."""
        self.reservation.close()


def plan_network(pods: Sequence[PodInstance], *, seed: str, names_in_text: bool) -> Network:
    """Give every pod an address and a free port for each of its rendezvous ports.

    `seed` tells jobs of one name apart (the job's folder). Raises TransientError when no port is free.
    """
    addresses = _addresses(pods, seed)
    subdomains = {pod.hostname: pod.subdomain for pod in pods}
    namespace = pods[0].namespace if pods else "default"
    reservation = PortReservation()
    network = Network(namespace, addresses, subdomains, (), names_in_text, reservation)
    declared = {(pod.hostname, names.MASTER_PORT) for pod in pods}
    for pod in pods:
        declared.update(_declared_ports(pod, network.host_of_name))
    avoid = {port for _, port in declared}
    try:
        ports = tuple(
            PortSubstitution(
                hostname=hostname, declared=port, actual=reservation.take(f"{seed}/{hostname}:{port}", avoid=avoid)
            )
            for hostname, port in sorted(declared)
        )
    except BaseException:
        reservation.close()
        raise
    return Network(namespace, addresses, subdomains, ports, names_in_text, reservation)


def _declared_ports(pod: PodInstance, host_of_name: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Find the rendezvous ports that a pod's variables and flags name, with the pod that listens on each."""
    for container in (*pod.init_containers(), *pod.containers()):
        variables = _plain_variables(container.get("env") or ())
        for port_name, address_name in PORT_OF_ADDRESS.items():
            value = variables.get(port_name, "")
            address = variables.get(address_name, "localhost")
            host = pod.hostname if address in OWN_HOSTS else host_of_name.get(address)
            if value.isdigit() and host is not None:
                yield host, int(value)
        texts = [variables[name] for name in HOST_AND_PORT if name in variables]
        pairs = [match for text in texts for match in PAIR.finditer(text)]
        words = " ".join(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))
        pairs += RENDEZVOUS_FLAG.finditer(words)
        for match in pairs:
            host = pod.hostname if match[1] in OWN_HOSTS else host_of_name.get(match[1])
            if host is not None:
                yield host, int(match[2])


def _plain_variables(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {
        str(entry.get("name")): value for entry in entries if isinstance(value := entry.get("value"), str) and value
    }


def _addresses(pods: Sequence[PodInstance], seed: str) -> dict[str, str]:
    """Give each pod an address of its own: it depends on the job and the host name only."""
    if not _can_listen_on("127.64.0.1"):
        return {pod.hostname: "127.0.0.1" for pod in pods}
    taken: set[int] = set()
    addresses: dict[str, str] = {}
    for pod in pods:
        if pod.hostname in addresses:
            continue
        number = zlib.crc32(f"{seed}/{pod.hostname}".encode()) % (_ADDRESS_COUNT)
        while number in taken:
            number = (number + 1) % _ADDRESS_COUNT
        taken.add(number)
        addresses[pod.hostname] = f"127.{_FIRST_OCTET + number // (256 * 254)}.{number // 254 % 256}.{1 + number % 254}"
    return addresses


def _can_listen_on(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
