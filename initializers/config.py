"""What an initializer is told: its environment, read once.

The names are Kubeflow Trainer's; `ALLOW_PATTERNS`, `OUTPUT_PATH` (known to the SDK) and `REPLACE` come on top.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.contract import env, paths
from trainyard.contract.environ import EnvironReader
from trainyard.contract.errors import ConfigError
from trainyard.storage.uri import StorageUri


@dataclass(frozen=True, kw_only=True, slots=True)
class InitializerConfig:
    """The configuration that both initializers share."""

    uri: StorageUri
    """STORAGE_URI, required: what to stage."""
    output: Path
    """OUTPUT_PATH, absolute: the folder to stage into. Default /workspace/dataset or /workspace/model."""
    allow: tuple[str, ...] = ()
    """ALLOW_PATTERNS, comma-separated globs on the path relative to the source (`*` crosses `/`): only matching files
    are staged. Empty: all."""
    ignore: tuple[str, ...] = ()
    """IGNORE_PATTERNS, likewise: matching files are left out. Empty: for a model its defaults (`model_files`), for a
    dataset nothing."""
    replace: bool = False
    """REPLACE: whether a folder that was staged from another source, and foreign files whose names are wanted, are
    replaced. Off, because a wrong path must not cost anybody's data."""

    @classmethod
    def for_dataset(cls, environ: Mapping[str, str]) -> "InitializerConfig":
        """Read the dataset initializer's environment; raises ConfigError with every problem."""
        return cls._read(environ, paths.DATASET)

    @classmethod
    def for_model(cls, environ: Mapping[str, str]) -> "InitializerConfig":
        """Read the model initializer's environment; raises ConfigError with every problem."""
        return cls._read(environ, paths.MODEL)

    @classmethod
    def _read(cls, environ: Mapping[str, str], default_output: str) -> "InitializerConfig":
        reader = EnvironReader(environ)
        text = reader.required(env.STORAGE_URI)
        uri = None
        if text:
            try:
                uri = StorageUri.parse(text, field=env.STORAGE_URI)
            except ConfigError as error:
                reader.problem(str(error))
        output = Path(reader.text(env.OUTPUT_PATH, default_output))
        if not output.is_absolute():
            reader.problem(f"{env.OUTPUT_PATH}: expected an absolute path, got {str(output)!r}")
        allow = reader.words(env.ALLOW_PATTERNS)
        ignore = reader.words(env.IGNORE_PATTERNS)
        replace = reader.boolean(env.REPLACE, default=False)
        reader.finish()
        assert uri is not None  # finish() has raised otherwise
        return cls(uri=uri, output=output, allow=allow, ignore=ignore, replace=replace)
