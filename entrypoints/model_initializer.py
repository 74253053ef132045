"""The command `trainyard-model-initializer`: environment -> config -> staged model -> exit code."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from trainyard.entrypoints.ending import run_to_exit

HELP = """\
usage: trainyard-model-initializer        (no arguments; everything comes from the environment)

Stage a model into a folder: checked, resumable, and marked complete by .trainyard-manifest.json, written last.
  STORAGE_URI      what to stage, required: file:///models/qwen, or an absolute path
  OUTPUT_PATH      where to, default /workspace/model
  ALLOW_PATTERNS, IGNORE_PATTERNS   comma-separated globs on the path in the source; `*` also matches `/`
                   (default: one format of the weights: safetensors, else .bin, else .pt, else .gguf)
  REPLACE=true     replace what was staged there from another source
  LOG_FORMAT=json, LOG_LEVEL, TERMINATION_LOG_PATH   how to report; exit codes: 66 source, 67 bytes, 74 space, 75 retry
example: STORAGE_URI=file:///models/qwen OUTPUT_PATH=/tmp/qwen trainyard-model-initializer
"""


def main() -> NoReturn:
    """Run the command."""
    run_to_exit(_initialize)


def _initialize(environ: Mapping[str, str], argv: Sequence[str]) -> str | None:
    # Imported here: SIGTERM is answered from the first moment on.
    from trainyard.entrypoints.no_arguments import answered
    from trainyard.initializers.config import InitializerConfig
    from trainyard.initializers.model import initialize_model
    from trainyard.initializers.reporting import summary

    if answered(argv, HELP):
        return None
    return summary("model", initialize_model(InitializerConfig.for_model(environ), environ))


if __name__ == "__main__":
    main()
