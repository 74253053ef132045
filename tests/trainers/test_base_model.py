"""What an adapter calls its base model."""

from pathlib import Path

import pytest

from trainyard.storage.manifest import Header, write
from trainyard.trainers.torchtune.base_model import BaseModel, identify


@pytest.mark.parametrize(
    ("uri", "revision", "expected"),
    [
        ("hf://org/name", "0a1b2c", BaseModel("org/name", "0a1b2c")),
        ("hf://org/name/sub/folder@main", "0a1b2c", BaseModel("org/name", "0a1b2c")),
        ("file:///models/a%20b", None, BaseModel("/models/a b", None)),
        ("s3://bucket/models/x", None, BaseModel("s3://bucket/models/x", None)),
    ],
)
def test_a_staged_model_is_named_by_its_source(
    tmp_path: Path, uri: str, revision: str | None, expected: BaseModel
) -> None:
    write(tmp_path / ".trainyard-manifest.json", Header(source_uri=uri, revision=revision, selection={}), [])
    assert identify(tmp_path) == expected


def test_another_model_is_named_by_its_path(tmp_path: Path) -> None:
    assert identify(tmp_path) == BaseModel(str(tmp_path), None)
    (tmp_path / ".trainyard-manifest.json").write_text("{")
    assert identify(tmp_path) == BaseModel(str(tmp_path), None)
