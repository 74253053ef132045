"""Replace a container's mount paths in text by the folders behind them, where no mount can make them real.

A path counts only as a whole: `/workspace` is replaced in `/workspace/model`, `--dir=/workspace`, `file:///workspace`
and `cd /workspace;`, and left alone in `/workspace2`, `/data/workspace`, `s3://bucket/workspace`, `${ROOT}/workspace`.
The longest path wins.
"""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from trainyard.local.pods.substitution import PathSubstitution

# A path starts here: nothing before it that would make it the rest of another one, except the scheme `file://`.
_START: Final = r"(?:(?<=file://)|(?<![\w./~})\]$*-]))"
# And ends here: not in the middle of a name. A full stop that ends a sentence is not part of a name.
_END: Final = r"(?![\w-]|\.\w)"


def map_paths(text: str, paths: Sequence[PathSubstitution]) -> str:
    """Replace every mounted path in a text."""
    sources = {entry.target.rstrip("/"): entry.source for entry in paths if entry.target.rstrip("/")}
    if not sources or not any(target in text for target in sources):
        return text
    targets = "|".join(re.escape(target) for target in sorted(sources, key=len, reverse=True))
    return re.sub(f"{_START}({targets}){_END}", lambda match: sources[match[1]], text)


def source_of(path: str, paths: Sequence[PathSubstitution]) -> str | None:
    """Give the place on this machine behind an absolute path inside a container; None where nothing is mounted."""
    wanted = PurePosixPath(path)
    for entry in sorted(paths, key=lambda entry: -len(entry.target)):
        target = PurePosixPath(entry.target)
        if wanted == target:
            return entry.source
        if wanted.is_relative_to(target):
            return str(PurePosixPath(entry.source) / wanted.relative_to(target))
    return None
