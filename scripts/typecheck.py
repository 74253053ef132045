"""Run mypy over the packages under the names that users import: `trainyard.contract`, not `contract`.

A folder with a link `trainyard` to the repository's root stands in for the installed wheel, so that errors name the
files one edits. Arguments are passed on to mypy.
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Check every package of the wheel; give mypy's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    top_level = sorted({name.split(".")[1] for name in project["tool"]["setuptools"]["packages"]})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trainyard").symlink_to(ROOT)
        command = [sys.executable, "-m", "mypy", "--namespace-packages", "--explicit-package-bases"]
        for name in top_level:
            command += ["-p", f"trainyard.{name}"]
        return subprocess.run(
            [*command, *sys.argv[1:]], cwd=ROOT, check=False, env={"MYPYPATH": folder, "PATH": ""}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
