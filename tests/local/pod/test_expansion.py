"""`$(VAR)` as the kubelet resolves it; cases in the style of Kubernetes' own table."""

import pytest

from trainyard.local.pods.expansion import expand, references

VARIABLES = {"VAR": "value", "EMPTY": "", "OTHER": "$(VAR)", "a.b-c": "dotted"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR)", "value"),
        ("x-$(VAR)-$(VAR)-y", "x-value-value-y"),
        ("$(EMPTY)", ""),
        ("$(a.b-c)", "dotted"),
        ("$(MISSING)/x", "$(MISSING)/x"),
        ("$$(VAR)", "$(VAR)"),
        ("$$$(VAR)", "$value"),
        ("$$$$(VAR)", "$$(VAR)"),
        ("$$", "$"),
        ("echo $$; kill $$", "echo $; kill $"),
        ("$VAR ${VAR} $", "$VAR ${VAR} $"),
        ("$(VAR", "$(VAR"),
        ("$(VAR $(VAR)", "$(VAR $(VAR)"),
        ("$()", "$()"),
        ("$(OTHER)", "$(VAR)"),
        ("a)b(c", "a)b(c"),
        ("", ""),
    ],
)
def test_expansion_is_that_of_the_kubelet(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


def test_references_leave_out_the_escaped() -> None:
    assert references("$(A)/$$(B)/$(C)") == ("A", "C")
