"""JSON that is not YAML: `\\ud83d\\ude00` in a string, or one object after another without `---` between them."""

from typing import Any


def json_values(text: str) -> list[Any] | None:
    """Read one JSON value after another; None when the text is not JSON."""
    import json  # Only odd input needs it.

    decoder = json.JSONDecoder()
    values, position = [], 0
    try:
        text.encode("utf-8")
        while position < len(text):
            if text[position] in " \t\r\n":
                position += 1
                continue
            value, position = decoder.raw_decode(text, position)
            json.dumps(value, ensure_ascii=False).encode("utf-8")
            values.append(value)
    except (ValueError, RecursionError):
        return None
    return values
