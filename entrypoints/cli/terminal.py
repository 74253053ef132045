"""What a stream can show: is it a terminal, how wide, colours, characters beyond ASCII. Every CLI file prints by it.

    terminal = Terminal.of(sys.stdout, os.environ)
    terminal.paint("Failed", "red")         # plain text where there are no colours

`NO_COLOR` and `TERM=dumb` switch colours off, `FORCE_COLOR` switches them on. An ASCII locale gets ASCII marks.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_NARROWEST: Final = 20
_WITHOUT_TERMINAL: Final = 100
"""Columns for text that is wrapped or cut where nobody says how wide the page is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terminal:
    """One output stream, and what it can show."""

    stream: TextIO
    """Where the text goes."""
    interactive: bool
    """A terminal that can move its cursor: a live view makes sense."""
    color: bool
    """Colours are wanted."""
    unicode: bool
    """Characters beyond ASCII arrive as they are."""
    width: int
    """Columns."""

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> "Terminal":
        """Look at a stream and at the variables that speak about it."""
        is_terminal = stream.isatty()
        dumb = environ.get("TERM", "") in ("dumb", "unknown")
        color = is_terminal and not dumb
        if environ.get("FORCE_COLOR"):
            color = True
        if environ.get("NO_COLOR"):
            color = False
        columns = shutil.get_terminal_size((_WITHOUT_TERMINAL, 24)).columns if is_terminal else _WITHOUT_TERMINAL
        return cls(
            stream=stream,
            interactive=is_terminal and not dumb,
            color=color,
            unicode=_speaks_unicode(stream, environ),
            width=max(_NARROWEST, columns),
        )

    def paint(self, text: str, *styles: str) -> str:
        """Wrap a text in colour codes, where colours are wanted."""
        if not self.color or not styles or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def pick(self, beautiful: str, ascii_: str) -> str:
        """Choose the text that the stream can show."""
        return beautiful if self.unicode else ascii_

    def print(self, text: str = "") -> None:
        """Write a line and send it off, so that two streams keep their order."""
        self.stream.write(f"{text}\n")
        self.stream.flush()


def _speaks_unicode(stream: TextIO, environ: Mapping[str, str]) -> bool:
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    if not encoding.startswith("utf"):
        return False
    # Python speaks UTF-8 under LANG=C too (PEP 538 sets LC_CTYPE, PEP 540 ignores LC_ALL); who asked for C wants ASCII.
    ctype, lang = environ.get("LC_CTYPE"), environ.get("LANG")
    if lang in ("C", "POSIX") and ctype in ("C.UTF-8", "C.utf8", "UTF-8"):
        ctype = None
    return (environ.get("LC_ALL") or ctype or lang) not in ("C", "POSIX")


def cut(text: str, width: int, *, ellipsis: str = "...") -> str:
    """Shorten a text to a number of columns, saying so with an ellipsis."""
    if len(text) <= width:
        return text
    return text[: max(0, width - len(ellipsis))] + ellipsis[:width]


def duration(seconds: float) -> str:
    """Say a time span in two units: `7s`, `1m05s`, `2h03m`, `3d04h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"
