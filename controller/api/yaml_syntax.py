"""What the YAML parser complains about, as one sentence with its place."""

from typing import Final

import yaml

from trainyard.controller.api.problem import Problem

_HINTS: Final = {
    "mapping values are not allowed in this context": "a value with ': ' in it needs quotes, and fields of one mapping"
    " the same indentation",
    "found character that cannot start any token": "a value that begins with '@', '`' or '%' needs quotes",
    "did not find expected key": "look at the indentation and the quotes here and above",
    "could not find expected ':'": "look at the indentation and the quotes here and above",
    "found unexpected end of stream": "a quote is never closed",
}


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Put the parser's complaint into one sentence with its place."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    context = getattr(error, "context", None)
    start = getattr(error, "context_mark", None)
    position = getattr(error, "position", None)
    line, column = 1, 1
    if mark is not None:
        line, column = mark.line + 1, mark.column + 1
    elif isinstance(position, int):  # Of a character that YAML does not allow, in bytes.
        before = text.encode("utf-8", "surrogatepass")[:position]
        line, column = before.count(b"\n") + 1, position - before.rfind(b"\n")
        problem += f" (U+{ord(text[len(before.decode('utf-8', 'ignore'))]):04X})"
    if _is_tab(text, line, column):
        problem, context = "found a tab; indent with spaces", None
    message = f"not valid YAML: {problem}"
    if context:
        message += f" {context}"
        if start is not None and mark is not None and start.line != mark.line:
            message += f" that begins on line {start.line + 1}"
    if problem in _HINTS:
        message += f"; {_HINTS[problem]}"
    return Problem(path="", message=message, file=file, line=line, column=column)


def _is_tab(text: str, line: int, column: int) -> bool:
    lines = text.split("\n", line)
    return len(lines) >= line and lines[line - 1][column - 1 : column] == "\t"
