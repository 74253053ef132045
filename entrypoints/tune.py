"""The command `tune` of local runs and the torchtune image.

tune run [torchrun options] RECIPE --config NAME|FILE|auto key=value...      fine-tunes, with our recipe
tune ls | cp | cat | validate | download, and recipes that are not ours      go to torchtune itself, unchanged
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from trainyard.entrypoints.ending import run_to_exit
from trainyard.trainers.torchtune import command_line, threads


def tune(environ: Mapping[str, str], argv: Sequence[str]) -> str | None:
    """Do what the command line says."""
    command = command_line.parse(argv, environ)
    if command is None:
        _torchtune(argv)
        return None
    # Imported here: torch takes a second, and a wrong command line should not.
    from trainyard.trainers.torchtune.resolve import resolve

    config, notes = resolve(command.recipe, command.config, command.overrides, environ)
    if command.launch is not None:
        from trainyard.trainers import torchrun

        processes = int(command.launch.nproc_per_node)
        torchrun.launch(command.launch, threads.environment_of_each(processes, environ))
        return None
    from trainyard.trainers.torchtune import process_group, recipe

    return recipe.train(config, process_group.from_environ(environ), environ, notes=notes)


def _torchtune(argv: Sequence[str]) -> None:
    from trainyard.trainers import torchrun

    # torchao warns at import that its C++ extensions do not fit this torch; nothing that torchtune does needs them.
    logging.getLogger("torchao").setLevel(logging.ERROR)
    from torchtune._cli.tune import main as torchtune_main

    sys.argv = ["tune", *argv]
    with torchrun.true_end({}):
        torchtune_main()


def main() -> NoReturn:
    """Run `tune` and end with the code and reason of what happened."""
    # Without a bound on the time after SIGTERM: the recipe finishes its step and saves.
    run_to_exit(tune, stop_within_seconds=None)


if __name__ == "__main__":
    main()
