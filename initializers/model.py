"""Initialize a model: stage its weights in one format, with config, tokenizer and code, into its folder."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from trainyard.contract.errors import BadDataError
from trainyard.initializers.config import InitializerConfig
from trainyard.initializers.model_files import is_weights, model_selection
from trainyard.initializers.reporting import reporting, summary
from trainyard.storage.patterns import Selection
from trainyard.storage.registry import open_source
from trainyard.storage.source import Source, SourceFile
from trainyard.storage.stage import StageReport, stage

_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_LFS_POINTER_BYTES: Final = 1024
"""A pointer file is shorter than this (its specification says so)."""

_log = logging.getLogger(__name__)


def initialize_model(config: InitializerConfig, environ: Mapping[str, str]) -> StageReport:
    """Stage the model; `environ` holds the source's credentials and the status server.

    Raises SourceNotFoundError when the source is missing or empty or holds no weights, BadDataError when the weights
    are but pointers of Git LFS.
    """
    source = open_source(config.uri, environ)
    _log.info("staging the model source=%s destination=%s", config.uri, config.output)
    with reporting("model", environ) as observer:
        report = stage(
            source,
            config.output,
            selection=_NoPointers(inner=model_selection(config.allow, config.ignore), opener=source),
            replace_other=config.replace,
            observer=observer,
        )
    _log.info("%s", summary("model", report))
    return report


@dataclass(frozen=True, kw_only=True, slots=True)
class _NoPointers:
    """Refuses a repository that was cloned without Git LFS: it has all the names and none of the weights."""

    inner: Selection
    opener: Source

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def choose(self, files: Iterable[SourceFile], source: str) -> Iterator[SourceFile]:
        for file in self.inner.choose(files, source):
            if is_weights(file.path) and (file.size_bytes or 0) in range(1, _LFS_POINTER_BYTES):
                self._look(file, source)
            yield file

    def _look(self, file: SourceFile, source: str) -> None:
        buffer = memoryview(bytearray(len(_LFS_POINTER)))
        with closing(self.opener.open(file, 0, len(_LFS_POINTER))) as reader:
            count = reader.readinto(buffer)
        if bytes(buffer[:count]) == _LFS_POINTER:
            raise BadDataError(
                f"{source}: {file.path!r} is a Git LFS pointer, not the weights; run `git lfs pull` where it was cloned"
            )
