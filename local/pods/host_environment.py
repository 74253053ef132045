"""What a container inherits from the caller's environment: a short, visible list, as an image would bring its own.

Everything else stays outside, tokens and PYTHONPATH among it: a job that runs here and not on a cluster because of a
variable of one's shell is worse than one that fails.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_PROXY: Final = "how this machine reaches the network"
_CERTIFICATES: Final = "whom this machine trusts"
_CUDA: Final = "where this machine's GPU driver and toolkit are"
_PIP: Final = "how `pip install` in a container (the SDK's packages_to_install) reaches packages"
_CACHE: Final = "where this machine keeps downloads"

ALLOWED: Final[Mapping[str, str]] = {
    "HOME": "programs keep caches and settings there",
    "USER": "getpass and torch's compile cache ask for it",
    "LOGNAME": "as USER",
    "SHELL": "some launchers start the user's shell",
    "LANG": "text encoding",
    "LC_ALL": "text encoding",
    "LC_CTYPE": "text encoding",
    "TZ": "times in logs",
    "TMPDIR": "a machine may have little room in /tmp",
    "SSL_CERT_FILE": _CERTIFICATES,
    "SSL_CERT_DIR": _CERTIFICATES,
    "REQUESTS_CA_BUNDLE": _CERTIFICATES,
    "CURL_CA_BUNDLE": _CERTIFICATES,
    "HTTP_PROXY": _PROXY,
    "HTTPS_PROXY": _PROXY,
    "ALL_PROXY": _PROXY,
    "NO_PROXY": _PROXY,
    "http_proxy": _PROXY,
    "https_proxy": _PROXY,
    "all_proxy": _PROXY,
    "no_proxy": _PROXY,
    "LD_LIBRARY_PATH": _CUDA,
    "CUDA_HOME": _CUDA,
    "CUDA_PATH": _CUDA,
    "PIP_CONFIG_FILE": _PIP,
    "PIP_INDEX_URL": _PIP,
    "PIP_EXTRA_INDEX_URL": _PIP,
    "PIP_TRUSTED_HOST": _PIP,
    "PIP_CERT": _PIP,
    "HF_HOME": _CACHE,
    "XDG_CACHE_HOME": _CACHE,
}
"""Name to the reason why a container inherits it. PATH is built: see `search_path`."""

_LOOPBACK: Final = ("127.0.0.1", "localhost")


def inherited(environ: Mapping[str, str], peers: Iterable[str] = ()) -> dict[str, str]:
    """Give what a container inherits.

    With a proxy, NO_PROXY spares this machine (the status server is on it) and the peers: gRPC, with which JAX meets,
    would ask the proxy for them too.
    """
    taken = {name: environ[name] for name in ALLOWED if name in environ}
    if any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in taken):
        for name in ("NO_PROXY", "no_proxy"):
            spared = [part for part in taken.get(name, taken.get("no_proxy", "")).split(",") if part]
            taken[name] = ",".join([*spared, *(host for host in (*_LOOPBACK, *peers) if host not in spared)])
    # What an image for Python would set: lines of a log appear when they are written.
    return {**taken, "PYTHONUNBUFFERED": "1"}


def search_path(shims: Path, path: str) -> str:
    """Build PATH: our shims, this Python environment's programs, then the given path."""
    return ":".join([str(shims), str(Path(sys.executable).parent), path])
