"""Mount paths in text: whole paths only, the longest first."""

import pytest

from trainyard.local.pods.path_mapping import map_paths, source_of
from trainyard.local.pods.substitution import PathSubstitution

PATHS = (
    PathSubstitution(target="/workspace", source="/state/ws"),
    PathSubstitution(target="/workspace/dataset", source="/state/ds"),
    PathSubstitution(target="/data/in", source="/state/in"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/workspace", "/state/ws"),
        ("/workspace/", "/state/ws/"),
        ("/workspace/model/a.bin", "/state/ws/model/a.bin"),
        ("/workspace/dataset/x", "/state/ds/x"),
        ("/workspace/dataset2/x", "/state/ws/dataset2/x"),
        ("--output_dir=/workspace/output", "--output_dir=/state/ws/output"),
        ("dataset.data_dir=/workspace/dataset/.", "dataset.data_dir=/state/ds/."),
        ("/data/in:/workspace:/usr/bin", "/state/in:/state/ws:/usr/bin"),
        ("{'a': '/workspace/x', \"b\": \"/data/in\"}", "{'a': '/state/ws/x', \"b\": \"/state/in\"}"),
        ("file:///workspace/x", "file:///state/ws/x"),
        ("cd /workspace; ls >/workspace/log 2>&1", "cd /state/ws; ls >/state/ws/log 2>&1"),
        ("open(f'/workspace/{rank}.txt')", "open(f'/state/ws/{rank}.txt')"),
        ("Put it into /workspace.", "Put it into /state/ws."),
        ("[/workspace/a,/workspace/b]", "[/state/ws/a,/state/ws/b]"),
    ],
)
def test_a_mounted_path_is_replaced(text: str, expected: str) -> None:
    assert map_paths(text, PATHS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/workspace2",
        "/workspace-old/x",
        "/workspace.bak",
        "/home/me/workspace",
        "s3://bucket/workspace/x",
        "hf://org/workspace",
        "https://example.com/data/in",
        "${ROOT}/workspace",
        "$ROOT/workspace",
        "$(ROOT)/workspace",
        "~/workspace",
        "../workspace",
        "workspace",
        "/data/input",
    ],
)
def test_another_path_is_left_alone(text: str) -> None:
    assert map_paths(text, PATHS) == text


def test_a_replaced_path_is_not_replaced_again() -> None:
    nested = (
        PathSubstitution(target="/workspace", source="/data/in/ws"),
        PathSubstitution(target="/data/in", source="/workspace/x"),
    )
    assert map_paths("/workspace /data/in", nested) == "/data/in/ws /workspace/x"


def test_source_of_finds_the_innermost_mount() -> None:
    assert source_of("/workspace/dataset/a", PATHS) == "/state/ds/a"
    assert source_of("/workspace/model", PATHS) == "/state/ws/model"
    assert source_of("/workspace2", PATHS) is None
