"""Sources named by a bare path of this machine, which only local runs accept."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def localize_train_job(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Turn the bare paths of a TrainJob's initializers into `file://` URIs; give a new manifest."""
    spec = manifest.get("spec")
    initializer = spec.get("initializer") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(initializer, Mapping):
        return dict(manifest)
    sources = {
        step: {**source, "storageUri": localize_storage_uri(source["storageUri"], folder)}
        if isinstance(source, Mapping) and isinstance(source.get("storageUri"), str)
        else source
        for step, source in initializer.items()
    }
    return {**manifest, "spec": {**spec, "initializer": sources}}
