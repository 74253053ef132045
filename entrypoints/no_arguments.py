"""For container commands that take their orders from the environment: `--help` is all that they understand."""

from collections.abc import Sequence

from trainyard.contract.errors import UsageError


def answered(argv: Sequence[str], text: str) -> bool:
    """Print `text` when help is asked for, and say whether that was all; raises UsageError for anything else."""
    if not argv:
        return False
    if argv[0] in ("-h", "--help"):
        print(text, end="")
        return True
    raise UsageError(f"expected no arguments, got {argv[0]!r}; everything comes from the environment, see --help")
