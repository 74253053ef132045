import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from trainyard.contract.errors import BadDataError, ConfigError, SourceNotFoundError
from trainyard.storage.local_source import LocalSource, from_uri
from trainyard.storage.source import SourceChangedError
from trainyard.storage.uri import StorageUri


def opened(text: str) -> LocalSource:
    return from_uri(StorageUri.parse(text), {})


def listed(source: LocalSource) -> list[str]:
    return [file.path for file in source.files()]


def read(source: LocalSource, path: str, start: int = 0, stop: int | None = None) -> bytes:
    file = next(file for file in source.files() if file.path == path)
    buffer = memoryview(bytearray(7))
    data = b""
    with closing(source.open(file, start, stop)) as reader:
        while count := reader.readinto(buffer):
            data += bytes(buffer[:count])
        reader.confirm()
    return data


@pytest.mark.parametrize("spelling", ["file://{}", "file://localhost{}", "{}"])
def test_every_spelling_is_the_same_source(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "a").write_text("x")
    identity = opened(spelling.format(tmp_path)).resolve()
    assert identity.uri == f"file://{tmp_path}"
    assert identity.revision is None


def test_percent_encoding_is_decoded_in_uris_and_kept_in_paths(tmp_path: Path) -> None:
    (tmp_path / "a b%20c").mkdir()
    (tmp_path / "a b%20c" / "é").write_text("x")
    by_uri = opened(f"file://{tmp_path}/a%20b%2520c")
    by_path = opened(f"{tmp_path}/a b%20c")
    assert listed(by_uri) == listed(by_path) == ["é"]
    assert by_uri.resolve() == by_path.resolve()


@pytest.mark.parametrize("text", ["file://./data", "file://../x", "file://data", "file://~/x"])
def test_a_relative_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an absolute path after file://"):
        opened(text)


def test_another_host_is_refused_with_the_probable_meaning() -> None:
    with pytest.raises(ConfigError, match=r"got host 'data' in 'file://data/x'; expected file:///data/x"):
        opened("file://data/x")


def test_an_encoded_nul_is_refused() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        opened("file:///data/%00x")


def test_a_missing_source_says_what_there_is_instead(tmp_path: Path) -> None:
    (tmp_path / "squad-v2").mkdir()
    with pytest.raises(SourceNotFoundError, match=r"no such file or folder; .* has 'squad-v2'"):
        opened(f"{tmp_path}/squad/train").resolve()


def test_a_folder_is_walked_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a/b/c", "empty/", "c.txt"):
        path = tmp_path / name
        path.mkdir(parents=True) if name.endswith("/") else path.parent.mkdir(exist_ok=True, parents=True)
        if not name.endswith("/"):
            path.write_text(name)
    assert listed(LocalSource(tmp_path)) == ["a/b/c", "a/z", "b", "c.txt"]


def test_a_single_file_is_a_source_of_one(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(b"0123456789")
    source = LocalSource(tmp_path / "data.jsonl")
    assert [(file.path, file.size_bytes) for file in source.files()] == [("data.jsonl", 10)]
    assert read(source, "data.jsonl") == b"0123456789"


def test_ranges_are_exact(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789abcdef")
    source = LocalSource(tmp_path)
    assert read(source, "x", 3, 12) == b"3456789ab"
    assert read(source, "x", 12) == b"cdef"
    assert read(source, "x", 5, 5) == b""


def test_bookkeeping_of_tools_is_left_out(tmp_path: Path) -> None:
    for name in (".git/config", "sub/.git/x", ".cache/huggingface/y", ".trainyard-manifest.json", ".gitattributes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert listed(LocalSource(tmp_path)) == [".gitattributes"]


def test_links_are_followed_out_of_the_folder_as_hugging_face_caches_need(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "1f0c").write_bytes(b"weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/1f0c")
    (snapshot / "folder").symlink_to(blobs)
    source = LocalSource(snapshot)
    assert listed(source) == ["folder/1f0c", "model.safetensors"]
    assert read(source, "model.safetensors") == b"weights"


def test_a_link_to_a_folder_above_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    with pytest.raises(BadDataError, match="folder above itself"):
        listed(LocalSource(tmp_path))


def test_what_is_no_file_is_listed_as_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # A socket's path is short.
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        (tmp_path / "dangling").symlink_to("/no/such/file")
        (tmp_path / "itself").symlink_to("itself")
        reasons = {file.path: file.unreadable for file in LocalSource(tmp_path).files()}
    assert reasons == {
        "pipe": "it is a named pipe",
        "socket": "it is a socket",
        "dangling": "it is a symbolic link to '/no/such/file', which is not there",
        "itself": "it is a symbolic link to 'itself', which is not there",
    }


def test_a_device_is_no_source() -> None:
    with pytest.raises(BadDataError, match="expected a file or a folder, found a character device"):
        opened("file:///dev/null").resolve()


@pytest.mark.parametrize("change", ["append", "same-size", "replace"])
def test_a_file_that_changes_is_noticed(tmp_path: Path, change: str) -> None:
    (tmp_path / "x").write_bytes(b"before")
    source = LocalSource(tmp_path)
    (file,) = source.files()
    with closing(source.open(file)) as reader:
        if change == "append":
            (tmp_path / "x").write_bytes(b"before and after")
        else:
            (tmp_path / "x").write_bytes(b"after!")
            os.utime(tmp_path / "x", ns=(1, 1))
        with pytest.raises(SourceChangedError, match="changed while it was being staged"):
            reader.confirm()
    with pytest.raises(SourceChangedError):
        source.open(file)
    assert source.refresh(file).version != file.version


def test_a_file_that_vanishes_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    source = LocalSource(tmp_path)
    (file,) = source.files()
    (tmp_path / "x").unlink()
    with pytest.raises(SourceNotFoundError):
        source.open(file)


def test_a_pipe_in_a_files_place_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    source = LocalSource(tmp_path)
    (file,) = source.files()
    (tmp_path / "x").unlink()
    os.mkfifo(tmp_path / "x")
    with pytest.raises(SourceChangedError):
        source.open(file)


def test_names_that_are_not_utf8_are_listed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_bytes(b"x")
    assert listed(LocalSource(tmp_path)) == [name]
