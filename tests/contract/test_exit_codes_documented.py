import re
from pathlib import Path

from trainyard.contract.exit_codes import MEANING, PERMANENT, ExitCode

TABLE = Path(__file__).parents[2] / "docs" / "exit-codes.md"


def test_the_documented_table_is_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (.+?) \| (\w*) ?\|$", TABLE.read_text(), re.MULTILINE)
    expected = [
        (str(int(code)), code.name, MEANING[code], "no" if code in PERMANENT else "yes" if code else "")
        for code in ExitCode
    ]
    assert rows == expected
