"""Tables as `kubectl` prints them: headings, columns two blanks apart, no lines. The last column takes what is left."""

from collections.abc import Sequence

from trainyard.entrypoints.cli.terminal import Terminal, cut

_GAP = "  "
_NARROWEST_LAST_COLUMN = 12


def format_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    terminal: Terminal,
    *,
    styles: dict[str, str] | None = None,
    cut_last: bool = True,
) -> str:
    """Lay out rows below headings; `styles` paints cells by their text, such as {"Failed": "red"}.

    On a terminal a long last column is cut at its edge; in a pipe nothing is cut.
    """
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    if terminal.interactive and cut_last:
        used = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_NARROWEST_LAST_COLUMN, terminal.width - used))
    lines = [terminal.paint(_line(headings, widths), "bold")]
    for row in rows:
        cells = [cut(cell, width) if terminal.interactive else cell for cell, width in zip(row, widths, strict=True)]
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        painted = [
            terminal.paint(text, styles[cell]) if styles and cell in styles else text
            for cell, text in zip(row, padded, strict=True)
        ]
        lines.append(_GAP.join(painted).rstrip())
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def format_fields(fields: Sequence[tuple[str, str]], terminal: Terminal, *, indent: int = 0) -> str:
    """Lay out `Name:  value` lines with the values below one another; fields without a value are left out."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0) + 1
    lines = []
    for name, value in shown:
        first, *more = value.splitlines()
        head = terminal.paint(f"{name}:".ljust(width), "bold")
        lines.append(f"{' ' * indent}{head}{_GAP}{first}")
        lines.extend(f"{' ' * (indent + width)}{_GAP}{line}" for line in more)
    return "\n".join(lines)
