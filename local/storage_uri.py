"""Sources named by a bare path of this machine, which only local runs accept."""

import re
from pathlib import Path

from trainyard.contract.errors import ConfigError


def localize_storage_uri(uri: str, folder: Path) -> str:
    """Turn a bare path of this machine into a `file://` URI; everything with a scheme stays as it is.

    For local runs, before validation: the API demands a scheme. A relative path counts from `folder`. Raises
    ConfigError for a path that does not exist.
    """
    if not uri or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", uri):
        return uri
    path = folder / Path(uri).expanduser()
    if not path.exists():
        raise ConfigError(
            f"storageUri {uri!r}: no such file or folder on this machine ({path}); a source elsewhere starts with a "
            "scheme, such as hf:// or s3://"
        )
    return "file://" + str(path.resolve()).replace("%", "%25")
