"""Run every benchmark of this folder, one after the other, each in a process of its own.

python -m benchmarks [NAME ...]
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the named benchmarks, or all; give 1 when one missed its limits."""
    every = sorted(file.stem for file in HERE.glob("[a-z]*.py"))
    wanted = sys.argv[1:] or every
    unknown = [name for name in wanted if name not in every]
    if unknown:
        print(f"no benchmark called {', '.join(unknown)}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    missed = []
    for name in wanted:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode != 0:
            missed.append(name)
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
