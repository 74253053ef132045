import sys
from pathlib import Path

import pytest

from trainyard.contract.errors import ConfigError, TrainyardError, UnsupportedError
from trainyard.storage.local_source import LocalSource
from trainyard.storage.registry import NOT_YET, SOURCES, open_source
from trainyard.storage.uri import StorageUri


def test_file_is_served() -> None:
    assert isinstance(open_source(StorageUri.parse("file:///data"), {}), LocalSource)


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as refused:
        open_source(StorageUri.parse("ftp://host/x"), {}, field="STORAGE_URI")
    text = str(refused.value)
    assert text.startswith("STORAGE_URI: unknown scheme 'ftp' in 'ftp://host/x'")
    assert all(f"{scheme}://" in text for scheme in (*SOURCES, *NOT_YET))


@pytest.mark.parametrize("scheme", [*NOT_YET, "cache"])
def test_a_known_scheme_that_is_not_served_says_what_is(scheme: str) -> None:
    with pytest.raises(UnsupportedError, match="file://") as refused:
        open_source(StorageUri.parse(f"{scheme}://user:hunter2@x/y?sig=hunter2"), {})
    if scheme != "hf" and scheme != "pvc":
        assert "hunter2" not in str(refused.value)
    assert isinstance(refused.value, TrainyardError)


def test_an_installed_distribution_adds_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainyard_toy.py").write_text("def make(uri, environ): return ('toy', uri.rest, dict(environ))\n")
    info = tmp_path / "trainyard_toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trainyard-toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trainyard.sources]\ntoy = trainyard_toy:make\nfile = trainyard_toy:make\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert open_source(StorageUri.parse("toy://a/b"), {"K": "v"}) == ("toy", "a/b", {"K": "v"})  # type: ignore[comparison-overlap]
    assert isinstance(open_source(StorageUri.parse("file:///x"), {}), LocalSource)
    with pytest.raises(ConfigError, match="toy://"):
        open_source(StorageUri.parse("ftp://host/x"), {})
