"""What goes wrong while staging: hostile names, broken promises, changing sources, full and read-only disks."""

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import IntegrityError, SourceNotFoundError, TransientError
from trainyard.contract.paths import MANIFEST
from trainyard.storage.destination import WORK
from trainyard.storage.local_source import LocalReader, LocalSource
from trainyard.storage.safe_name import HostileNameError
from trainyard.storage.source import SourceFile
from trainyard.storage.stage import stage
from trainyard.storage.verify import verify


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a\0b", "a//b", "", ".trainyard-manifest.json", "d/.trainyard-work/x", "x" * 300, "a/../../x"],
)
def test_a_hostile_name_is_refused_before_any_byte_is_written(tmp_path: Path, memory_source: Any, name: str) -> None:
    source = memory_source({"good": b"x"}, names=["good", name])
    with pytest.raises(HostileNameError, match=r"stage memory://test into .*: refuse the name"):
        stage(source, tmp_path / "out")
    assert source.opened == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["a", "a/b"], ["a/b", "a"], ["a", "a"]])
def test_names_that_clash_are_refused_before_any_byte_is_written(
    tmp_path: Path, memory_source: Any, names: list[str]
) -> None:
    with pytest.raises(HostileNameError):
        stage(memory_source({}, names=names), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_promised_digest_is_checked_and_the_file_fetched_once_more(tmp_path: Path, memory_source: Any) -> None:
    right = hashlib.sha256(b"right").hexdigest()
    source = memory_source({"a": b"wrong", "b": b"fine"}, promised={"a": {"sha256": right}})
    with pytest.raises(IntegrityError) as refused:
        stage(source, tmp_path / "out")
    text = str(refused.value)
    assert "'a'" in text
    assert f"sha256 is {hashlib.sha256(b'wrong').hexdigest()}, expected {right}, and again on the second try" in text
    assert source.opened.count("a") == 2
    assert not (tmp_path / "out" / MANIFEST).exists()
    assert not (tmp_path / "out" / "a").exists()

    source.contents["a"] = b"right"
    stage(source, tmp_path / "out")
    assert verify(tmp_path / "out").ok


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5"])
def test_every_digest_that_can_be_checked_is(tmp_path: Path, memory_source: Any, algorithm: str) -> None:
    good = {"a": {algorithm: hashlib.new(algorithm, b"x").hexdigest()}}
    stage(memory_source({"a": b"x"}, promised=good), tmp_path / "good")
    with pytest.raises(IntegrityError, match=f"{algorithm} is"):
        stage(memory_source({"a": b"y"}, promised=good), tmp_path / "bad")


def test_a_digest_that_nobody_here_can_check_is_kept(tmp_path: Path, memory_source: Any) -> None:
    stage(memory_source({"a": b"x"}, promised={"a": {"crc64nvme": "0a"}}), tmp_path / "out")
    assert '"crc64nvme": "0a"' in (tmp_path / "out" / MANIFEST).read_text()


def test_a_file_that_changes_once_is_staged_as_it_is_then(tmp_path: Path, memory_source: Any) -> None:
    source = memory_source({"a": b"x"})
    source.stale["a"] = 1
    stage(source, tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"x"


def test_a_file_that_keeps_changing_is_an_integrity_error(tmp_path: Path, memory_source: Any) -> None:
    source = memory_source({"a": b"x"})
    source.stale["a"] = 2
    with pytest.raises(IntegrityError, match="changed, and again on the second try"):
        stage(source, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_a_file_that_vanishes_between_listing_and_reading_is_not_found(tmp_path: Path, memory_source: Any) -> None:
    source = memory_source({"a": b"x"})
    source.stale["a"] = 1
    del source.contents["a"]
    source._names = ["a"]
    with pytest.raises(SourceNotFoundError, match="is gone"):
        stage(source, tmp_path / "out")


def test_what_was_done_before_a_failure_is_not_done_again(tmp_path: Path, memory_source: Any) -> None:
    contents = {f"{index:02}": bytes([index]) for index in range(20)}

    class Failing(memory_source):  # type: ignore[misc]
        def open(self, file: Any, start: int = 0, stop: int | None = None) -> Any:
            if file.path == "10" and not self.stale:
                raise TransientError("read '10': the connection was cut")
            return super().open(file, start, stop)

    source = Failing(contents)
    with pytest.raises(TransientError):
        stage(source, tmp_path / "out", workers=2)
    assert not (tmp_path / "out" / MANIFEST).exists()
    assert (tmp_path / "out" / WORK).exists()
    before = len(source.opened)
    source.stale["other"] = 1
    report = stage(source, tmp_path / "out", workers=2)
    assert report.staged_files == len(source.opened) - before
    assert report.staged_files <= 12
    assert not (tmp_path / "out" / WORK).exists()
    assert verify(tmp_path / "out").ok


def failing_once(memory_source: Any, tmp_path: Path) -> Any:
    """Stage a and b, fail at c."""
    source = memory_source({"a": b"a" * 10, "b": b"b" * 10, "c": b"c" * 10})
    source.stale["c"] = 2
    with pytest.raises(IntegrityError):
        stage(source, tmp_path / "out", workers=1)
    return source


def rot(file: Path) -> None:
    """Change the bytes and neither size nor time."""
    status = file.stat()
    file.write_bytes(b"?" * status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_after_a_restart_of_the_machine_files_are_read_to_be_believed(
    tmp_path: Path, memory_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = failing_once(memory_source, tmp_path)
    monkeypatch.setattr("trainyard.storage.journal.boot_id", lambda: "another")
    rot(tmp_path / "out" / "a")
    source.stale["a"] = 2  # This run ends before it has read them all...
    with pytest.raises(IntegrityError):
        stage(source, tmp_path / "out", workers=1)
    source.opened.clear()
    report = stage(source, tmp_path / "out", workers=1)  # ... and the next one, of the same boot, is not fooled.
    assert sorted(source.opened) == ["a", "c"]
    assert report.staged_files == 2
    assert verify(tmp_path / "out").ok


def test_without_a_restart_size_and_time_are_enough(tmp_path: Path, memory_source: Any) -> None:
    source = failing_once(memory_source, tmp_path)
    source.opened.clear()
    assert stage(source, tmp_path / "out", workers=1).staged_files == 1
    assert source.opened == ["c"]


def test_a_removal_does_not_follow_links(tmp_path: Path, memory_source: Any) -> None:
    stage(memory_source({"sub/a": b"1", "b": b"2"}), tmp_path / "out")
    (tmp_path / "out" / "sub").rename(tmp_path / "mine")
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "mine")
    stage(memory_source({"b": b"2"}), tmp_path / "out")
    assert (tmp_path / "mine" / "a").read_bytes() == b"1"
    assert verify(tmp_path / "out").ok


def test_a_local_file_that_grows_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "log").write_bytes(b"1")

    class Growing(LocalSource):
        growths = 1

        def open(self, file: SourceFile, start: int = 0, stop: int | None = None) -> LocalReader:
            reader = super().open(file, start, stop)
            if self.growths:
                self.growths -= 1
                with open(tmp_path / "source" / "log", "ab") as log:
                    log.write(b"2")
            return reader

    source = Growing(tmp_path / "source")
    stage(source, tmp_path / "out")
    assert (tmp_path / "out" / "log").read_bytes() == b"12"
    source.growths = 100
    (tmp_path / "source" / "log").write_bytes(b"other")
    with pytest.raises(IntegrityError, match="changed while it was being staged, and again on the second try"):
        stage(source, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_a_source_of_unknown_sizes_is_staged(tmp_path: Path, memory_source: Any) -> None:
    report = stage(memory_source({"a": b"x" * 3_000_000}, sizes=False), tmp_path / "out")
    assert report.size_bytes == 3_000_000


def test_a_listing_longer_than_the_first_part_is_staged_while_it_goes_on(
    tmp_path: Path, memory_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard.storage.staging.LISTED_FIRST", 10)
    contents = {f"{index:03}": b"x" for index in range(100)}
    source = memory_source(contents)
    opened_while_listing: list[int] = []
    listing = source.files

    def files() -> Any:
        for file in listing():
            opened_while_listing.append(len(source.opened))
            yield file

    source.files = files
    assert stage(source, tmp_path / "out").files == 100
    assert opened_while_listing[9] == 0
    assert opened_while_listing[-1] > 50
    changed = memory_source({**contents, "new": b"y"})
    del changed.contents["050"]
    report = stage(changed, tmp_path / "out")
    assert (report.staged_files, report.removed_files, report.files) == (1, 1, 100)
    assert verify(tmp_path / "out").ok


FULL_DISK = """
    import os, subprocess, sys
    from pathlib import Path
    from trainyard.contract.errors import NoSpaceError
    from trainyard.storage.source import SourceFile, SourceIdentity
    from trainyard.storage.stage import stage
    from trainyard.storage.verify import verify

    class Zeros:
        descriptor = None
        def __init__(self, size):
            self.left = size
        def readinto(self, buffer):
            count = min(len(buffer), self.left)
            self.left -= count
            return count
        def confirm(self): pass
        def close(self): pass

    class Source:
        def __init__(self, tell): self.tell = tell
        def resolve(self): return SourceIdentity(uri="memory://zeros")
        def files(self):
            for name, size in (("a", 1000), ("b", 3_000_000)):
                yield SourceFile(path=name, size_bytes=size if self.tell else None, version="1")
        def refresh(self, file): return file
        def open(self, file, start=0, stop=None): return Zeros({"a": 1000, "b": 3_000_000}[file.path])

    place = Path(sys.argv[1])
    def mount(options): subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], check=True)
    mount("size=1m")

    def refused(tell):
        try:
            stage(Source(tell), place / "out")
        except NoSpaceError as error:
            return str(error)
        raise AssertionError("staged 3 MB into 1 MB")

    before = refused(tell=True)
    assert "needs 3001000 bytes in 2 files, only " in before, before
    assert list(place.iterdir()) == [], "something was left of what could never fit"
    during = refused(tell=False)
    assert during.startswith(f"write '{place}/out/b': No space left on device; free some space"), during
    assert not list(place.rglob("*manifest*"))
    assert sorted(file.name for file in (place / "out").iterdir()) == [".trainyard-work", "a"]
    assert os.statvfs(place).f_bavail * 4096 > 900_000, "the failed file still takes its space"
    mount("remount,size=8m")
    report = stage(Source(tell=False), place / "out")
    assert (report.files, report.staged_files) == (2, 1), report
    assert verify(place / "out").ok
"""


def run_script(prefix: list[str], script: str, *arguments: object) -> None:
    command = [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_told_before_and_during_and_survived(tmp_path: Path, private_mounts: list[str]) -> None:
    run_script(private_mounts, FULL_DISK, tmp_path)


READ_ONLY = """
    import subprocess, sys
    from pathlib import Path
    from trainyard.contract.errors import CannotWriteError
    from trainyard.storage.local_source import LocalSource
    from trainyard.storage.stage import stage

    source, place = Path(sys.argv[1]), Path(sys.argv[2])
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    stage(LocalSource(source), place / "done")
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    assert stage(LocalSource(source), place / "done").was_complete
    try:
        stage(LocalSource(source), place / "new")
    except CannotWriteError as error:
        assert str(error) == f"make the folder '{place}/new': Read-only file system", error
    else:
        raise AssertionError("wrote to a read-only file system")
"""


def test_a_read_only_destination_is_an_error_unless_it_is_complete(tmp_path: Path, private_mounts: list[str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"x")
    (tmp_path / "place").mkdir()
    run_script(private_mounts, READ_ONLY, tmp_path / "source", tmp_path / "place")


DENIED = """
    import os, sys
    from pathlib import Path
    from trainyard.contract.errors import AccessDeniedError, CannotWriteError
    from trainyard.storage.local_source import LocalSource
    from trainyard.storage.stage import stage

    place = Path(sys.argv[1])
    def fails(kind, source, target):
        try:
            stage(LocalSource(place / source), place / target)
        except kind as error:
            return
        raise AssertionError((source, target))
    fails(AccessDeniedError, "hidden-folder", "out")
    fails(AccessDeniedError, "hidden-file", "out")
    fails(CannotWriteError, "source", "sealed")
    fails(CannotWriteError, "source", "sealed/below")
"""


def test_missing_rights_on_either_side_are_told_apart(tmp_path: Path, unprivileged: list[str]) -> None:
    for folder in ("source", "hidden-folder", "hidden-file", "sealed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_bytes(b"x")
    (tmp_path / "sealed" / "a").unlink()
    (tmp_path / "hidden-file" / "a").chmod(0)
    (tmp_path / "hidden-folder").chmod(0)
    (tmp_path / "sealed").chmod(0o500)
    try:
        run_script(unprivileged, DENIED, tmp_path)
    finally:
        (tmp_path / "hidden-folder").chmod(0o700)
        (tmp_path / "sealed").chmod(0o700)
