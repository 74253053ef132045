"""The script of a Python that starts in milliseconds and runs `main(*words)` of one module of this folder.

    python -I -S lean_start.py MODULE [WORD...]

`-I -S` skips `site` and with it the finders of installed packages, so this makes a bare `trainyard.local` whose path is
this folder: the module may import its neighbours and the standard library, nothing else.
"""

import sys

_FLAGS = ("-I", "-S", "-X", "utf8")


def command_line(module: str, *words: str) -> list[str]:
    """Build the command line that calls `main(*words)` of a module of this folder."""
    return [sys.executable, *_FLAGS, __file__, module, *words]


def _run(module: str, *words: str) -> None:
    kind = type(sys)
    outer, inner = kind("trainyard"), kind("trainyard.local")
    outer.__path__, inner.__path__ = [], [__file__.rpartition("/")[0]]
    sys.modules.update({"trainyard": outer, "trainyard.local": inner})
    __import__(f"trainyard.local.{module}", fromlist=["main"]).main(*words)


if __name__ == "__main__":
    _run(*sys.argv[1:])
