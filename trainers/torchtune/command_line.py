"""The `tune` command line: which of it is ours, and whether torchrun has to start the processes.

tune run [torchrun options] RECIPE --config NAME|FILE|auto key=value...
"""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard.contract import env
from trainyard.contract.errors import UsageError
from trainyard.trainers.torchtune.resolve import RECIPES

_STARTED_BY_TORCHRUN: Final = "TORCHELASTIC_RUN_ID"
"""torchrun sets it for every process that it starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tune:
    """A command line of `tune`, understood."""

    recipe: str
    config: str
    """What stands after --config."""
    overrides: tuple[str, ...]
    """The key=value words."""
    launch: Namespace | None
    """torchrun's arguments when it must start the processes; None: this process trains."""


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Tune | None:
    """Understand `run ...`; None for other commands and recipes, which are torchtune's own.

    Raises UsageError.
    """
    if not argv or argv[0] != "run" or len(argv) < 2 or argv[1] in ("-h", "--help"):
        return None
    arguments = None if not argv[1].startswith("-") else _torchrun_arguments(argv[1:])
    recipe, *words = argv[1:] if arguments is None else (arguments.training_script, *arguments.training_script_args)
    if recipe not in RECIPES:
        return None
    config, overrides = _split(recipe, words)
    launch = None
    if _STARTED_BY_TORCHRUN not in environ and (arguments is not None or _asks_for_more(environ)):
        launch = _launch(arguments or _torchrun_arguments(argv[1:]), argv[1:])
    return Tune(recipe=recipe, config=config, overrides=overrides, launch=launch)


def _split(recipe: str, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    config: str | None = None
    overrides = []
    rest = iter(words)
    for word in rest:
        if word == "--config":
            config = next(rest, None)
        elif word.startswith("--config="):
            config = word.removeprefix("--config=")
        elif word.startswith("-"):
            raise UsageError(f"tune run {recipe}: unknown option {word!r}; expected --config NAME and key=value words")
        else:
            overrides.append(word)
    if not config:
        raise UsageError(f"tune run {recipe}: --config is required: auto, a file, or the name of a torchtune config")
    return config, tuple(overrides)


def _asks_for_more(environ: Mapping[str, str]) -> bool:
    """Say whether PET_* alone asks for something else than one process on one node."""
    return any(environ.get(name, "1") != "1" for name in (env.PET_NNODES, env.PET_NPROC_PER_NODE))


def _torchrun_arguments(words: Sequence[str]) -> Namespace:
    # Imported here: a plain `tune run RECIPE` of one process needs none of it.
    from torch.distributed.run import parse_args

    return parse_args(list(words))


def _processes(asked: str) -> int:
    """Count the processes of this node: a number, or a word of torchrun's."""
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if asked == "cpu":
        return os.cpu_count() or 1
    if asked in ("auto", "gpu"):
        import torch

        # For auto torchrun would start a process for each core where there is no GPU; one process uses all of them.
        return torch.cuda.device_count() or 1
    raise UsageError(f"nproc_per_node: expected a number, auto, gpu or cpu, got {asked!r}")


def _launch(arguments: Namespace, words: Sequence[str]) -> Namespace | None:
    """Complete torchrun's arguments, so that each process runs this very command; None when that is one process."""
    arguments.nproc_per_node = str(_processes(arguments.nproc_per_node))
    one_node = arguments.nnodes in ("1", "1:1")
    if one_node and arguments.nproc_per_node == "1":
        return None
    if one_node:
        # A port of its own for each job: two jobs on one machine never meet at the port that both were given.
        arguments.standalone = True
    place = words.index(arguments.training_script)
    arguments.training_script_args = ["run", *words[place:]]
    arguments.training_script = "trainyard.entrypoints.tune"
    arguments.module = True
    return arguments
