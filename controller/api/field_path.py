"""Field paths as people read and type them: `spec.trainer.env[0].name`, `limits['nvidia.com/gpu']`.

In code a path is a tuple of names and list indexes. Typed by a person, a name with dots may also be written
`limits.nvidia\\.com/gpu` or `limits[nvidia.com/gpu]`.
"""

import re
from typing import Final

Path = tuple[str | int, ...]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]+")
_PIECE: Final = re.compile(
    r"""\[ \s* (?: (?P<index>\d{1,9}) | '(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<bare>[^\]'"]+) ) \s* \]
      | (?P<dot>\.)? (?P<name>(?:\\.|[^\\.\[\]])+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def format_path(path: Path) -> str:
    """Write a path for people."""
    text = ""
    for piece in path:
        if isinstance(piece, int):
            text += f"[{piece}]"
        elif _PLAIN.fullmatch(piece):
            text += f".{piece}" if text else piece
        else:
            text += f'["{piece}"]' if "'" in piece else f"['{piece}']"
    return text


def parse_path(text: str) -> Path:
    """Read what `format_path` writes, or what a person types; raise ValueError that names the piece."""
    path: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (match["name"] is not None and bool(match["dot"]) != bool(path)):
            raise ValueError(
                f"expected a field path such as spec.trainer.env[0].name, got {text[position:]!r} in {text!r}"
            )
        if match["index"] is not None:
            path.append(int(match["index"]))
        elif match["name"] is not None:
            path.append(_ESCAPED.sub(r"\1", match["name"]).strip())
        else:
            path.append(next(match[group] for group in ("single", "double", "bare") if match[group] is not None))
        position = match.end()
    if not path:
        raise ValueError("expected a field path such as spec.trainer.env[0].name, got nothing")
    return tuple(path)
