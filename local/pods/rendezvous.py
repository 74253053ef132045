"""Where processes say how they meet: the variables and flags that hold a rendezvous' host and port."""

import re
from typing import Final

from trainyard.contract import env

PORT_OF_ADDRESS: Final = {
    env.PET_MASTER_PORT: env.PET_MASTER_ADDR,
    "MASTER_PORT": "MASTER_ADDR",
    env.DMLC_TRACKER_PORT: env.DMLC_TRACKER_URI,
    "DMLC_PS_ROOT_PORT": "DMLC_PS_ROOT_URI",
}
"""A variable that holds a rendezvous port, and the one that holds the host which listens on it."""

HOST_AND_PORT: Final = (
    env.JAX_COORDINATOR_ADDRESS,
    "COORDINATOR_ADDRESS",
    "PET_RDZV_ENDPOINT",
    "TF_CONFIG",
)
"""Variables that hold `host:port`, somewhere in their text, of processes that meet."""

RENDEZVOUS_FLAG: Final = re.compile(
    r"--(?:rdzv[-_]endpoint|coordinator[-_]address)[= ]+[\"']?([\w.-]+):(\d{2,5})(?!\d)"
)
"""A flag with `host:port` in a command line."""

PAIR: Final = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]*):(\d{2,5})(?!\d)")
"""`host:port` in any text."""

OWN_HOSTS: Final = ("localhost", "127.0.0.1", "0.0.0.0")
"""Hosts that mean the pod itself."""
