"""Make or reuse a virtual environment and install this project with some of its extras into it.

Called by the Makefile: `python3 scripts/environment.py .venv dev torchtune`. Standard library only, no root. A second
call with the same pyproject, pins and extras returns at once.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints" / "dev.txt"
OLDEST = (3, 11)


def fail(message: str) -> None:
    """Say what is missing and end."""
    sys.exit(f"environment: {message}")


def create(folder: Path) -> None:
    """Make the virtual environment, with whatever of venv, uv and virtualenv this machine has."""
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        ["uv", "venv", "--seed", "--python", sys.executable, str(folder)],
        [sys.executable, "-m", "virtualenv", str(folder)],
    ):
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return
    fail("cannot make a virtual environment: install python3-venv (Debian, Ubuntu), uv or virtualenv, then run again")


def digest(extras: list[str]) -> str:
    """Name the state that an installation depends on."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS.read_bytes(), str(ROOT).encode()]
    parts.append(os.environ.get("TORCH_INDEX_URL", "").encode())
    parts.extend(extra.encode() for extra in sorted(extras))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def install(folder: Path, extras: list[str]) -> None:
    """Install the project in editable mode with the pins."""
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-qq"]

    def run(*arguments: str) -> None:
        # setuptools warns of folders in the working directory at every editable installation; nobody can act on it.
        environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run([*pip, *arguments], cwd=ROOT, env=environ, check=False)
        if done.returncode != 0:
            fail(f"`pip {' '.join(arguments)}` failed, see above")

    torch_index = os.environ.get("TORCH_INDEX_URL")
    if torch_index and "torchtune" in extras:
        run("install", "--index-url", torch_index, "--constraint", str(CONSTRAINTS), "torch")
    run("install", "--constraint", str(CONSTRAINTS), "--editable", f".[{','.join(sorted(extras))}]")


def main() -> None:
    """Bring the environment to the asked state."""
    if sys.version_info < OLDEST:
        found = sys.version.split()[0]
        fail(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {found}; try make PYTHON=python3.11")
    folder, extras = Path(sys.argv[1]), sys.argv[2:]
    if not (folder / "bin" / "python").exists():
        print(f"making {folder} with Python {sys.version.split()[0]}", flush=True)
        create(folder)
    # An extra once installed stays: `make demo` then `make test` must not install torch twice or lose it.
    stamp = folder / ".trainyard-extras"
    before = stamp.read_text().split() if stamp.exists() else []
    wanted = sorted(set(before[1:]) | set(extras))
    if before[:1] == [digest(wanted)]:
        return
    print(f"installing trainyard[{','.join(wanted)}] (torch alone is several GB: minutes the first time)", flush=True)
    started = time.monotonic()
    install(folder, wanted)
    stamp.write_text(" ".join([digest(wanted), *wanted]))
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
