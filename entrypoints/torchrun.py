"""The command `torchrun` of local runs and our images: torchrun's own command line and behaviour, but for the end.

The code and the reason of the rank that failed first come out, where torchrun would say 1.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from trainyard.entrypoints.ending import run_to_exit
from trainyard.trainers.torchrun import launch


def torchrun(_environ: Mapping[str, str], argv: Sequence[str]) -> None:
    """Start the processes as torchrun does."""
    # Imported here: torch takes a second.
    from torch.distributed.run import parse_args

    launch(parse_args(list(argv)))


def main() -> NoReturn:
    """Run torchrun and end with the code and reason of what happened."""
    # torchrun forwards signals and waits for its processes; no bound of ours on that.
    run_to_exit(torchrun, stop_within_seconds=None)


if __name__ == "__main__":
    main()
