"""The script of a Python that starts in milliseconds and runs `main(*words)` of one module of this folder.

    python -I -S lean_start.py MODULE [WORD...]

`-I -S` skips `site`, and with it the finders of installed packages, so this makes a bare `trainyard.local.containers`
with this folder as its path: the module may import its neighbours and the standard library, nothing else.
"""

import sys

_FLAGS = ("-I", "-S", "-X", "utf8")
_PACKAGE = "trainyard.local.containers"


def command_line(module: str, *words: str) -> list[str]:
    """Build the command line that calls `main(*words)` of a module of this folder."""
    return [sys.executable, *_FLAGS, __file__, module, *words]


def _run(module: str, *words: str) -> None:
    package = ""
    for part in _PACKAGE.split("."):
        package = f"{package}.{part}".lstrip(".")
        bare = type(sys)(package)
        bare.__path__ = [__file__.rpartition("/")[0]] if package == _PACKAGE else []
        sys.modules[package] = bare
    __import__(f"{_PACKAGE}.{module}", fromlist=["main"]).main(*words)


if __name__ == "__main__":
    _run(*sys.argv[1:])
