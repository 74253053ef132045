import json
import os
from pathlib import Path

import pytest

from trainyard.contract.errors import SourceNotFoundError
from trainyard.contract.paths import MANIFEST
from trainyard.storage.local_source import LocalSource
from trainyard.storage.manifest import DamagedManifestError
from trainyard.storage.progress import StageProgress
from trainyard.storage.stage import stage
from trainyard.storage.verify import verify


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    for name in ("a", "sub/b", "sub/c", "d", "e"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(name.encode() * 1000)
    stage(LocalSource(source), tmp_path / "out")
    return tmp_path / "out"


def test_a_good_folder_is_good(staged: Path) -> None:
    seen: list[StageProgress] = []
    report = verify(staged, observer=seen.append)
    assert report.ok
    assert (report.files, report.size_bytes, report.bad, report.missing, report.extra) == (5, 13000, (), (), ())
    assert report.source_uri.startswith("file://")
    assert (seen[-1].percent, seen[-1].bytes) == (100, 13000)


def test_each_bad_missing_and_extra_file_is_named(staged: Path) -> None:
    status = (staged / "a").stat()
    (staged / "a").write_bytes(b"A" * 1000)
    os.utime(staged / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    (staged / "sub" / "b").write_bytes(b"short")
    (staged / "sub" / "c").unlink()
    (staged / "d").unlink()
    (staged / "d").symlink_to(staged / "e")
    (staged / "sub" / "new").write_bytes(b"")
    report = verify(staged)
    assert not report.ok
    assert [file.path for file in report.bad] == ["a", "d", "sub/b"]
    assert str(report.bad[0]).startswith("'a': expected sha256 ")
    assert str(report.bad[2]) == "'sub/b': expected 5000 bytes, found 5 bytes"
    assert report.missing == ("sub/c",)
    assert report.extra == ("sub/new",)


def test_a_manifest_that_was_tampered_with_blames_the_file(staged: Path) -> None:
    raw = json.loads((staged / MANIFEST).read_text())
    raw["files"][0]["sha256"] = "0" * 64
    (staged / MANIFEST).write_text(json.dumps(raw))
    assert [file.path for file in verify(staged).bad] == ["a"]


def test_a_manifest_that_lost_a_line_is_damaged(staged: Path) -> None:
    raw = json.loads((staged / MANIFEST).read_text())
    del raw["files"][0]
    (staged / MANIFEST).write_text(json.dumps(raw))
    with pytest.raises(DamagedManifestError, match="expected 5 files in it, found 4"):
        verify(staged)


def test_a_manifest_that_points_outside_is_damaged(staged: Path) -> None:
    text = (staged / MANIFEST).read_text()
    (staged / MANIFEST).write_text(text.replace('"path": "a"', '"path": "../source/a"'))
    with pytest.raises(DamagedManifestError, match="leaves the destination"):
        verify(staged)


def test_what_is_not_staged_cannot_be_verified(staged: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no such folder"):
        verify(tmp_path / "none")
    with pytest.raises(SourceNotFoundError, match="it is a file"):
        verify(staged / "a")
    with pytest.raises(SourceNotFoundError, match="has no manifest"):
        verify(staged / "sub")
    (staged / MANIFEST).unlink()
    (staged / ".trainyard-work").mkdir()
    with pytest.raises(SourceNotFoundError, match="has not finished"):
        verify(staged)
