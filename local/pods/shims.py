"""A folder of small programs that comes first on PATH in a run, as in our images; the wheel installs none of its names.

`tune`, `torchrun` and `mpirun` run ours, which change nothing but the end: the code and reason of the rank that failed
first come out. `python` is the interpreter that runs `trainyard`, whatever the machine calls it, and our own commands
are there although no shell has activated an environment.
"""

import importlib.util
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LAUNCHERS: Final[Mapping[str, str]] = {
    "tune": "trainyard.entrypoints.tune",
    "torchrun": "trainyard.entrypoints.torchrun",
    "mpirun": "trainyard.entrypoints.mpirun",
}
"""Command to the module that stands for it; one whose module is not installed gets no shim."""

COMMANDS: Final[Mapping[str, str]] = {
    "trainyard": "trainyard.entrypoints.cli.main",
    "trainyard-dataset-initializer": "trainyard.entrypoints.dataset_initializer",
    "trainyard-model-initializer": "trainyard.entrypoints.model_initializer",
}
"""Our console commands to the module whose `main` they call."""

_INTERPRETERS: Final = ("python", "python3")


def shim_scripts() -> dict[str, str]:
    """Write the shims: name to the text of a shell script."""
    python = shlex.quote(sys.executable)
    scripts = dict.fromkeys(_INTERPRETERS, f'exec {python} "$@"')
    for name, module in LAUNCHERS.items():
        if _is_installed(module):
            scripts[name] = f'exec {python} -m {module} "$@"'
    for name, module in COMMANDS.items():
        if _is_installed(module):
            call = f"import sys; from {module} import main; sys.argv[0] = {name!r}; sys.exit(main())"
            scripts[name] = f'exec {python} -c {shlex.quote(call)} "$@"'
    return {name: f"#!/bin/sh\n{line}\n" for name, line in scripts.items()}


def write_shims(folder: Path) -> None:
    """Write the shims that are not there yet, or that are another version's."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in shim_scripts().items():
        file = folder / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        partial = folder / f".{name}"
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o755)
        partial.replace(file)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
