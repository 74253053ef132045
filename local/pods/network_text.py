"""Replace rendezvous ports, and names where nothing resolves them, in a pod's commands and environment.

PET_MASTER_PORT=29500 and its like (`rendezvous.PORT_OF_ADDRESS`)     by the port of the pod that the address names
job-node-0-0.job:29500                             anywhere; by that pod's port
localhost:29500, 127.0.0.1:29500, 0.0.0.0:29500    anywhere; by the own pod's
"$PET_MASTER_ADDR:29500", f"{host}:29500"          a host that is known only when it runs; by the master's
--master_port=29500, MASTER_PORT = "29500"         by the master's
job-node-0-0.job                                   by its address, where no hosts file can be mounted
"""

import re
from collections.abc import Mapping, Sequence

from trainyard.local.pods.network import Network
from trainyard.local.pods.pod_instance import PodInstance
from trainyard.local.pods.rendezvous import OWN_HOSTS, PORT_OF_ADDRESS


class NetworkText:
    """Applies a job's network to text; compiled once for a job."""

    def __init__(self, network: Network) -> None:
        self._network = network
        hosts = network.host_of_name
        declared = "|".join(str(port) for port in sorted({entry.declared for entry in network.ports})) or "(?!)"
        # A script can have a megabyte: most texts hold none of these words, and are not searched further.
        self._signs = [str(port) for port in {entry.declared for entry in network.ports}]
        self._signs += network.addresses if network.names_in_text else ()
        self._pairs = re.compile(rf"(?<![\w.-])({_any_of((*hosts, *OWN_HOSTS))}):(\d{{2,5}})(?!\d)")
        # Full names only: the short one is also the name of folders and labels.
        full = [name for name, hostname in hosts.items() if name != hostname]
        self._names = re.compile(rf"(?<![\w.-])(?:{_any_of(full)})(?![\w-]|\.\w)")
        self._unknown_hosts = re.compile(rf"((?:\$\w+|[}})]|^):|(?<=[\"']):(?=\d+[\"']))({declared})(?!\d)")
        self._port_words = re.compile(rf"(?i)(master[_-]port[\"']?\W{{1,5}})({declared})(?!\w)")

    def in_environment(self, variables: Mapping[str, str], pod: PodInstance) -> dict[str, str]:
        """Replace in the values of one container's variables."""
        replaced = {name: self.in_text(value, pod, variables) for name, value in variables.items()}
        for port_name, address_name in PORT_OF_ADDRESS.items():
            value = variables.get(port_name, "")
            host = self._listener(variables.get(address_name), pod)
            if value.isdigit() and host is not None:
                replaced[port_name] = str(self._network.port(host, int(value)))
        return replaced

    def in_words(self, words: Sequence[str], pod: PodInstance, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Replace in a command line; `variables` say who the master is."""
        replaced = [self.in_text(word, pod, variables) for word in words]
        for position in range(1, len(words)):
            if words[position - 1] in ("--master_port", "--master-port") and words[position].isdigit():
                replaced[position] = str(self._network.port(self._master(variables, pod), int(words[position])))
        return tuple(replaced)

    def in_text(self, text: str, pod: PodInstance, variables: Mapping[str, str]) -> str:
        """Replace in a text: an argument, a script, a configuration file."""
        if not any(sign in text for sign in self._signs):
            return text
        network = self._network

        def pair(match: re.Match[str]) -> str:
            name, declared = match[1], int(match[2])
            host = network.host_of_name.get(name, pod.hostname)
            is_name = network.names_in_text and name in network.host_of_name
            return f"{network.addresses[host] if is_name else name}:{network.port(host, declared)}"

        def of_master(match: re.Match[str]) -> str:
            return f"{match[1]}{network.port(self._master(variables, pod), int(match[2]))}"

        text = self._pairs.sub(pair, text)
        text = self._unknown_hosts.sub(of_master, text)
        text = self._port_words.sub(of_master, text)
        if network.names_in_text:
            text = self._names.sub(lambda match: network.addresses[network.host_of_name[match[0]]], text)
        return text

    def _master(self, variables: Mapping[str, str], pod: PodInstance) -> str:
        """Give the pod that a rendezvous without a host means: the one that the variables name, else the own one."""
        for address_name in PORT_OF_ADDRESS.values():
            if address_name in variables:
                return self._listener(variables[address_name], pod) or pod.hostname
        return pod.hostname

    def _listener(self, address: str | None, pod: PodInstance) -> str | None:
        """Give the pod behind an address; the own pod for localhost and for none; None for a foreign host."""
        if not address or address in OWN_HOSTS:
            return pod.hostname
        known = self._network.host_of_name.get(address)
        if known is not None:
            return known
        return next((host for host, own in self._network.addresses.items() if own == address), None)


def _any_of(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word))) or "(?!)"
