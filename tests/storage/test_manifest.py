import json
from pathlib import Path

import pytest

from trainyard.contract.paths import MANIFEST
from trainyard.storage.manifest import DamagedManifestError, Entry, Header, Manifest, write


def entry(path: str, **fields: object) -> Entry:
    return Entry(**{"path": path, "size_bytes": 1, "sha256": "00", "mtime_ns": 5, "version": "v", **fields})  # type: ignore[arg-type]


ENTRIES = [entry("b"), entry("a", digests={"md5": "0a"}), entry("sub/é\udce9\n")]
HEADER = Header(
    source_uri="file:///x",
    revision="abc",
    selection={"allow": ["*"], "ignore": []},
    file_count=3,
    byte_count=3,
    created="2026-11-21T00:00:00Z",
    tool="trainyard 1",
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write(tmp_path / MANIFEST, HEADER, ENTRIES)
    return tmp_path


def test_what_is_written_is_read_back_in_order_of_paths(written: Path) -> None:
    manifest = Manifest(written)
    assert manifest.exists()
    assert manifest.header == HEADER
    assert list(manifest.entries()) == sorted(ENTRIES, key=lambda entry: entry.path)


def test_it_is_plain_json_and_survives_being_laid_out_anew(written: Path) -> None:
    raw = json.loads((written / MANIFEST).read_text())
    assert [file["path"] for file in raw["files"]] == ["a", "b", "sub/é\udce9\n"]
    (written / MANIFEST).write_text(json.dumps(raw, indent=4))
    assert Manifest(written).header == HEADER
    assert list(Manifest(written).entries()) == sorted(ENTRIES, key=lambda entry: entry.path)


def test_it_has_one_file_a_line(written: Path) -> None:
    lines = (written / MANIFEST).read_text().splitlines()
    assert sum(line.startswith('{"path": ') for line in lines) == 3


def edited(written: Path, old: str, new: str) -> Manifest:
    text = (written / MANIFEST).read_text()
    assert old in text
    (written / MANIFEST).write_text(text.replace(old, new, 1))
    return Manifest(written)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"path": "a"', '{"path": "../a"'),
        ('{"path": "a"', '{"path": ".trainyard-work/a"'),
        ('{"path": "a"', '{"path": 7'),
        ('"size": 1', '"size": true'),
        ('"sha256": "00"', '"sha255": "00"'),
        ('{"path": "a"', '["path", "a"'),
        ('"files": 3', '"files": 2'),
        ('"version": 1', '"version": 2'),
        ('"uri": "file:///x"', '"uri": 7'),
        ('"selection"', '"selektion"'),
        ("]\n}\n", ""),
    ],
)
def test_a_damaged_manifest_is_not_believed(written: Path, old: str, new: str) -> None:
    manifest = edited(written, old, new)
    with pytest.raises(DamagedManifestError, match="trainyard-manifest"):
        _ = manifest.header
        list(manifest.entries())


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\xfe", b"null", b'"files": [\n]\n'])
def test_something_else_in_its_place_is_not_believed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(DamagedManifestError):
        _ = Manifest(tmp_path).header
