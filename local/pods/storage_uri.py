"""Sources named by a bare path of this machine, which only local runs accept: the API demands a scheme.

Called before a TrainJob is validated. A relative path counts from the folder of the file that holds it, so that a job
and its data can be moved together; one given by `--set`, or on standard input, from the current folder.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import ConfigError
from trainyard.controller.api.documents import Document
from trainyard.controller.api.problem import InvalidError, Problem

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def localize_storage_uri(uri: str, folder: Path) -> str:
    """Turn a bare path into a `file://` URI; everything with a scheme stays as it is.

    A relative path counts from `folder`. Raises ConfigError for a path that does not exist.
    """
    if not uri or _SCHEME.match(uri):
        return uri
    path = folder / Path(uri).expanduser()
    if not path.exists():
        raise ConfigError(
            f"no such file or folder on this machine: {str(path)!r}; a source elsewhere starts with a scheme, such as "
            "hf:// or s3://"
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


def localize_document(document: Document) -> None:
    """Do the same to a TrainJob of a stream, in place; raise InvalidError that has the place of a missing path."""
    spec = document.data.get("spec")
    initializer = spec.get("initializer") if isinstance(spec, dict) else None
    for step, source in initializer.items() if isinstance(initializer, dict) else ():
        if not isinstance(source, dict) or not isinstance(source.get("storageUri"), str):
            continue
        path = f"spec.initializer.{step}.storageUri"
        file, line = document.locate(path)
        in_file = file is not None and line is not None and file != "-"
        try:
            source["storageUri"] = localize_storage_uri(
                source["storageUri"], Path(file).absolute().parent if in_file and file else Path.cwd()
            )
        except ConfigError as error:
            raise InvalidError([Problem(path=path, message=str(error), file=file, line=line)]) from error
