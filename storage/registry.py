"""Which source serves which scheme: one visible table, and the entry-point group `trainyard.sources`.

An installed distribution adds a scheme by an entry point of that group, named after the scheme, that loads a factory
`(StorageUri, environ) -> Source`; it cannot replace a scheme of the table.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, cast

from trainyard.contract import env
from trainyard.contract.errors import ConfigError, UnsupportedError
from trainyard.storage.source import Source
from trainyard.storage.uri import StorageUri

Factory = Callable[[StorageUri, Mapping[str, str]], Source]

SOURCES: Final[Mapping[str, str]] = {
    "file": "trainyard.storage.local_source:from_uri",
}
"""Scheme to `module:factory`, imported when first used: clients of object stores are slow to import."""

NOT_YET: Final = ("abfs", "abfss", "az", "gs", "hf", "http", "https", "oci", "pvc", "s3")
"""Schemes that belong to the contract and that this version does not serve."""

ENTRY_POINT_GROUP: Final = "trainyard.sources"


def open_source(uri: StorageUri, environ: Mapping[str, str], *, field: str = env.STORAGE_URI) -> Source:
    """Make the source that serves `uri`; it reads its credentials from `environ`.

    Raises UnsupportedError for a scheme that is known and not served, ConfigError for one that nobody knows.
    """
    target = SOURCES.get(uri.scheme)
    if target is not None:
        module, _, name = target.partition(":")
        return cast(Factory, getattr(importlib.import_module(module), name))(uri, environ)
    installed = _installed()
    if uri.scheme in installed:
        return installed[uri.scheme]()(uri, environ)
    served = _phrase((*SOURCES, *installed))
    if uri.scheme == "cache":
        raise UnsupportedError(
            f"{field}: the data cache is not supported, got {str(uri)!r}; stage the table's files, this version has "
            f"{served}"
        )
    if uri.scheme in NOT_YET:
        raise UnsupportedError(
            f"{field}: {uri.scheme}:// is not served by this version, got {str(uri)!r}; it has {served}"
        )
    known = _phrase((*SOURCES, *installed, *NOT_YET))
    raise ConfigError(f"{field}: unknown scheme {uri.scheme!r} in {str(uri)!r}; expected one of {known}")


def _installed() -> dict[str, Callable[[], Factory]]:
    # Imported here: it costs 15 ms, and the schemes of the table need none of it.
    from importlib.metadata import entry_points

    return {point.name: point.load for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in SOURCES}


def _phrase(schemes: tuple[str, ...]) -> str:
    return ", ".join(f"{scheme}://" for scheme in sorted(set(schemes)))
