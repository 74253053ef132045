from pathlib import Path

import pytest

from trainyard.contract.errors import BadDataError
from trainyard.initializers.config import InitializerConfig
from trainyard.initializers.model import initialize_model
from trainyard.storage.stage import StageReport

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 5\n"


def initialize(tmp_path: Path, contents: dict[str, bytes], **extra: str) -> StageReport:
    for name, data in contents.items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(data)
    environ = {"STORAGE_URI": f"file://{tmp_path}/model", "OUTPUT_PATH": str(tmp_path / "out"), **extra}
    return initialize_model(InitializerConfig.for_model(environ), environ)


def test_a_model_is_staged_in_one_format(tmp_path: Path) -> None:
    initialize(tmp_path, {"config.json": b"{}", "m.safetensors": b"w" * 10, "m.bin": b"w"})
    assert sorted(file.name for file in (tmp_path / "out").glob("[!.]*")) == ["config.json", "m.safetensors"]


def test_a_clone_without_lfs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadDataError, match=r"'m.safetensors' is a Git LFS pointer, not the weights; run `git lfs pull`"
    ):
        initialize(tmp_path, {"config.json": b"{}", "m.safetensors": POINTER})
    assert not (tmp_path / "out").exists()


def test_a_second_run_finds_the_work_done(tmp_path: Path) -> None:
    contents = {"config.json": b"{}", "m.safetensors": b"w" * 10}
    initialize(tmp_path, contents)
    assert initialize(tmp_path, {}).was_complete
    assert initialize(tmp_path, {}, IGNORE_PATTERNS="*.msgpack,*.h5,*.bin,*.pt,*.pth").was_complete
