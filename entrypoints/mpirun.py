"""The command `mpirun` of local runs and our images: the real mpirun's command line and behaviour, but for the end.

The code and the reason of the rank that failed first come out.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from trainyard.entrypoints.ending import run_to_exit
from trainyard.trainers.mpirun import launch


def mpirun(environ: Mapping[str, str], argv: Sequence[str]) -> None:
    """Start the processes as mpirun does."""
    launch(argv, environ)


def main() -> NoReturn:
    """Run mpirun and end with the code and reason of what happened."""
    # mpirun forwards signals and waits for its processes; no bound of ours on that.
    run_to_exit(mpirun, stop_within_seconds=None)


if __name__ == "__main__":
    main()
