"""Print the exact versions in a virtual environment as a constraints file: names and versions, no addresses."""

import subprocess
import sys

HEADER = """\
# Exact versions for the demo, the tests and the images. Names and versions only: where they come from is the
# business of whoever installs. Renewed by `make pins`."""


def main() -> None:
    """Read `pip freeze` of the environment named on the command line."""
    frozen = subprocess.run(
        [f"{sys.argv[1]}/bin/python", "-m", "pip", "freeze", "--exclude-editable"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # A local version such as 2.13.0+cu130 names one build; the pin is to fit every build of the version.
    pins = (line.split("+")[0] for line in frozen.splitlines() if "==" in line)
    print("\n".join([HEADER, *sorted(pins, key=str.lower)]))


if __name__ == "__main__":
    main()
