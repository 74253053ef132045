"""The processes that train together: who we are, and the one collective that training needs.

torchrun gives RANK, WORLD_SIZE, LOCAL_RANK and an address by the environment; without them there is one process.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist

from trainyard.contract.errors import ConfigError, TransientError

TIMEOUT: Final = timedelta(minutes=10)
"""How long a collective waits for a peer that is silent; one that died is noticed at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessGroup:
    """Which process we are of how many."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """Our number among the processes of this machine."""
    local_world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Say whether we are the one that speaks and writes."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Add up a tensor over all processes, in place.

        Raises TransientError when a peer has gone.
        """
        if self.world_size == 1:
            return
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:  # gloo and NCCL say so in words of their own.
            raise _lost_peer(self, error) from error

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world_size == 1:
            return
        try:
            dist.barrier()
        except RuntimeError as error:
            raise _lost_peer(self, error) from error


def _lost_peer(group: ProcessGroup, error: RuntimeError) -> TransientError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return TransientError(
        f"rank {group.rank} of {group.world_size} on {socket.gethostname()}: lost a peer in a collective: {reason}"
    )


def from_environ(environ: Mapping[str, str]) -> ProcessGroup:
    """Read who we are from what torchrun set."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if "RANK" not in environ:
        return ProcessGroup()
    try:
        rank, world_size, local_rank, local_world_size = (int(environ[name]) for name in names)
    except (KeyError, ValueError) as error:
        found = ", ".join(f"{name}={environ.get(name)!r}" for name in names)
        raise ConfigError(f"RANK is set, so all of {', '.join(names)} must be numbers; found {found}") from error
    return ProcessGroup(rank=rank, world_size=world_size, local_rank=local_rank, local_world_size=local_world_size)


@contextmanager
def joined(group: ProcessGroup, device: torch.device) -> Iterator[None]:
    """Connect the processes for as long as the block runs."""
    if group.world_size == 1:
        yield
        return
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise TransientError(f"connect {group.world_size} processes at {address}: {error}") from error
    try:
        yield
    finally:
        dist.destroy_process_group()
