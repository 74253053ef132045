"""`$(VAR)` references, as the kubelet resolves them in env values, command and args.

    $(NAME)      the value, when NAME is defined; otherwise the text stays as it is
    $$(NAME)     the text $(NAME): `$$` is one `$` everywhere
    $NAME, ${NAME}, $(unclosed, a lone $     stay as they are; they are the shell's business

Source of the rules: the documentation of dependent environment variables in Kubernetes.
"""

import re
from collections.abc import Mapping
from typing import Final

_TOKEN: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the references in a text."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return variables.get(name, match[0])

    return _TOKEN.sub(value, text)


def references(text: str) -> tuple[str, ...]:
    """List the names that a text refers to."""
    return tuple(match[1] for match in _TOKEN.finditer(text) if match[1] is not None)
