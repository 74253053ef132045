"""Field paths are read as they are written."""

import pytest

from trainyard.controller.api.field_path import Path, format_path, parse_path


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("spec", "trainer", "env", 0, "name"), "spec.trainer.env[0].name"),
        (("metadata", "labels", "example.com/app"), "metadata.labels['example.com/app']"),
        (("a", "it's"), 'a["it\'s"]'),
        (("a", 0, 12, "b-c"), "a[0][12].b-c"),
    ],
)
def test_a_path_is_read_back(path: Path, text: str) -> None:
    assert format_path(path) == text
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["limits.nvidia\\.com/gpu", "limits[nvidia.com/gpu]", 'limits["nvidia.com/gpu"]'])
def test_names_with_dots_can_be_typed(text: str) -> None:
    assert parse_path(text) == ("limits", "nvidia.com/gpu")


@pytest.mark.parametrize("text", ["", ".a", "a..b", "a[", "a[0", "a]", "a[-1].b.", "a[0]b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a field path such as spec\.trainer"):
        parse_path(text)
