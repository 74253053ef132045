"""What to call the base model in an adapter, so that whoever loads the adapter finds the model.

`/workspace/model` means nothing outside the container. A staged folder's manifest says where the model came from.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from trainyard.storage.manifest import DamagedManifestError, Manifest


@dataclass(frozen=True, slots=True)
class BaseModel:
    """PEFT's two words for it."""

    name_or_path: str
    """A Hub repository such as org/name, a path, or another source's URI."""
    revision: str | None
    """The exact revision of a Hub repository; None for anything else."""


def identify(directory: Path) -> BaseModel:
    """Name the model of a model directory by its source, or by its own path where no manifest tells."""
    here = BaseModel(str(directory.absolute()), None)
    manifest = Manifest(directory)
    if not manifest.exists():
        return here
    try:
        header = manifest.header
    except DamagedManifestError:
        return here
    scheme, _, rest = header.source_uri.partition("://")
    if scheme == "hf":
        owner_and_name = rest.partition("@")[0].strip("/").split("/")[:2]
        return BaseModel("/".join(owner_and_name), header.revision)
    if scheme == "file":
        return BaseModel(unquote(rest), None)
    return BaseModel(header.source_uri, None)
