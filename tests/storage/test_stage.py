"""Staging real folders: what is there afterwards, and what a second run does."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import BadDataError, CannotWriteError, ConfigError, SourceNotFoundError
from trainyard.contract.paths import MANIFEST
from trainyard.storage.local_source import LocalSource
from trainyard.storage.manifest import DamagedManifestError
from trainyard.storage.patterns import Patterns
from trainyard.storage.progress import StageProgress
from trainyard.storage.stage import StageReport, stage
from trainyard.storage.verify import verify

Tree = Callable[[Path], dict[str, bytes]]

CONTENT = {
    "a.json": b"{}",
    "empty": b"",
    "sub/deep/" + "/".join("abcdefghijklmnopqrstuvwxyz") + "/x": b"deep",
    "日本語/é ü.txt": "ü".encode(),
    os.fsdecode(b"caf\xe9.txt"): b"latin",
    "large.bin": bytes(range(256)) * 12_000,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name, data in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def run(source: Path, target: Path, **options: Any) -> StageReport:
    return stage(LocalSource(source), target, **options)


def times(folder: Path) -> dict[Path, tuple[int, int]]:
    return {file: (file.lstat().st_ino, file.lstat().st_ctime_ns) for file in (folder, *folder.rglob("*"))}


def leftovers(target: Path) -> list[str]:
    return [file.name for file in target.rglob(".trainyard-*") if file.name != MANIFEST]


def test_everything_comes_over_byte_for_byte(source: Path, tmp_path: Path, tree: Tree) -> None:
    report = run(source, tmp_path / "out" / "nested")
    assert tree(tmp_path / "out" / "nested") == CONTENT
    assert (report.files, report.staged_files, report.was_complete) == (6, 6, False)
    assert report.size_bytes == sum(map(len, CONTENT.values()))
    assert leftovers(report.destination) == []
    verified = verify(report.destination)
    assert verified.ok
    assert verified.extra == ()


def test_modes_are_0644_and_0755_whatever_the_umask_and_the_source(source: Path, tmp_path: Path) -> None:
    (source / "a.json").chmod(0o700)
    before = os.umask(0o077)
    try:
        run(source, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {
        name: (tmp_path / "out" / name).stat().st_mode & 0o7777 for name in ("", "sub", "sub/deep", "a.json", MANIFEST)
    }
    assert modes == {"": 0o755, "sub": 0o755, "sub/deep": 0o755, "a.json": 0o644, MANIFEST: 0o644}


def test_a_write_in_place_never_reaches_the_users_data(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    assert (tmp_path / "out" / "a.json").stat().st_nlink == 1
    with open(tmp_path / "out" / "a.json", "r+b") as file:
        file.write(b"XX")
    assert (source / "a.json").read_bytes() == b"{}"


def test_the_manifest_says_what_and_from_where(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out", selection=Patterns(allow=("*.json", "empty")))
    raw = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert raw["source"] == {"uri": f"file://{source}", "revision": None}
    assert raw["selection"] == {"allow": ["*.json", "empty"], "ignore": []}
    assert raw["tool"].startswith("trainyard ")
    assert raw["total"] == {"files": 2, "bytes": 2}
    assert {file["path"]: file["sha256"][:8] for file in raw["files"]} == {"a.json": "44136fa3", "empty": "e3b0c442"}


def test_a_single_file_is_staged_under_its_name(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source / "a.json", tmp_path / "out")
    assert tree(tmp_path / "out") == {"a.json": b"{}"}


def test_links_become_files(source: Path, tmp_path: Path, tree: Tree) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model").symlink_to(source / "large.bin")
    run(snapshot, tmp_path / "out")
    assert not (tmp_path / "out" / "model").is_symlink()
    assert tree(tmp_path / "out") == {"model": CONTENT["large.bin"]}


def test_a_second_run_finds_the_work_done_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    before = times(tmp_path / "out")
    report = run(source, tmp_path / "out")
    assert report.was_complete
    assert (report.files, report.staged_files, report.staged_bytes) == (6, 0, 0)
    assert times(tmp_path / "out") == before


def test_a_pinned_revision_is_not_even_listed_again(tmp_path: Path, memory_source: Any) -> None:
    source = memory_source({"a": b"x"}, revision="c0ffee")
    stage(source, tmp_path / "out")
    listings = source.listings
    assert stage(source, tmp_path / "out").was_complete
    assert source.listings == listings


def test_a_moved_revision_brings_only_the_difference(tmp_path: Path, memory_source: Any, tree: Tree) -> None:
    stage(memory_source({"a": b"1", "b": b"2", "gone": b"3"}, revision="one"), tmp_path / "out")
    moved = memory_source({"a": b"1", "b": b"changed", "new": b"4"}, revision="two")
    report = stage(moved, tmp_path / "out")
    assert sorted(moved.opened) == ["b", "new"]
    assert (report.staged_files, report.removed_files, report.revision) == (2, 1, "two")
    assert tree(tmp_path / "out") == {"a": b"1", "b": b"changed", "new": b"4"}
    assert verify(tmp_path / "out").ok


def test_a_changed_source_brings_only_the_difference(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "out")
    (source / "a.json").write_bytes(b"{1}")
    (source / "empty").unlink()
    report = run(source, tmp_path / "out")
    assert (report.staged_files, report.removed_files, report.files) == (1, 1, 5)
    assert tree(tmp_path / "out") == tree(source)
    assert verify(tmp_path / "out").ok


def test_other_patterns_on_the_same_source_leave_just_what_they_ask(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "out", selection=Patterns(allow=("*.json",)))
    run(source, tmp_path / "out", selection=Patterns(allow=("empty", "large.bin")))
    assert sorted(tree(tmp_path / "out")) == ["empty", "large.bin"]


def test_files_may_become_folders_and_folders_files(tmp_path: Path, memory_source: Any, tree: Tree) -> None:
    stage(memory_source({"a": b"1", "b/c/d": b"2"}), tmp_path / "out")
    stage(memory_source({"a/x": b"3", "b": b"4"}), tmp_path / "out")
    assert tree(tmp_path / "out") == {"a/x": b"3", "b": b"4"}
    assert verify(tmp_path / "out").ok


@pytest.mark.parametrize("damage", ["shorter", "same-size", "gone", "link"])
def test_a_damaged_file_is_staged_again_and_no_other(source: Path, tmp_path: Path, tree: Tree, damage: str) -> None:
    run(source, tmp_path / "out")
    victim = tmp_path / "out" / "large.bin"
    if damage == "shorter":
        victim.write_bytes(b"x")
    elif damage == "same-size":
        victim.write_bytes(b"x" * len(CONTENT["large.bin"]))
    else:
        victim.unlink()
        if damage == "link":
            victim.symlink_to(source / "large.bin")
    report = run(source, tmp_path / "out")
    assert (report.staged_files, report.files) == (1, 6)
    assert not victim.is_symlink()
    assert tree(tmp_path / "out") == CONTENT


def test_a_copied_folder_whose_times_are_new_is_read_and_kept(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file() and file.name != MANIFEST:
            os.utime(file)
    assert run(source, tmp_path / "out").staged_files == 0
    assert run(source, tmp_path / "out").was_complete


def test_another_source_is_refused_and_harms_nothing(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").write_bytes(b"other")
    with pytest.raises(
        CannotWriteError, match=f"was staged from file://{source}; choose another folder, or set REPLACE"
    ):
        run(tmp_path / "other", tmp_path / "out")
    assert run(source, tmp_path / "out").was_complete


def test_replace_puts_another_source_in_place(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "out")
    (tmp_path / "out" / "mine").write_bytes(b"mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").write_bytes(b"other")
    report = run(tmp_path / "other", tmp_path / "out", replace_other=True)
    assert report.removed_files == 5
    assert tree(tmp_path / "out") == {"a.json": b"other", "mine": b"mine"}
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [MANIFEST, "a.json", "mine"]
    assert verify(tmp_path / "out").extra == ("mine",)


def test_foreign_files_of_other_names_are_left_alone(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "lost+found").mkdir(parents=True)
    (tmp_path / "out" / "mine").write_bytes(b"mine")
    run(source, tmp_path / "out")
    run(source, tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_bytes() == b"mine"


def test_a_foreign_file_in_the_way_is_an_error_before_anything_is_written(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "large.bin").write_bytes(b"mine")
    with pytest.raises(CannotWriteError, match=r"stage 'large.bin' into .* that was not staged here; move it away, or"):
        run(source, tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").rglob("*")] == ["large.bin"]
    run(source, tmp_path / "out", replace_other=True)
    assert (tmp_path / "out" / "large.bin").read_bytes() == CONTENT["large.bin"]


def test_a_foreign_folder_in_the_way_is_never_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "large.bin").mkdir(parents=True)
    with pytest.raises(CannotWriteError, match="there is a folder of that name"):
        run(source, tmp_path / "out", replace_other=True)


@pytest.mark.parametrize("replace_other", [False, True])
def test_a_link_below_the_destination_is_not_followed(source: Path, tmp_path: Path, replace_other: bool) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotWriteError, match="'.*/out/sub' is not a folder"):
        run(source, tmp_path / "out", replace_other=replace_other)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_destination_itself_may_be_a_link(source: Path, tmp_path: Path, tree: Tree) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    run(source, tmp_path / "out")
    assert tree(tmp_path / "real") == CONTENT


def test_a_destination_that_is_a_file_is_an_error(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(CannotWriteError):
        run(source, tmp_path / "out")
    with pytest.raises(CannotWriteError):
        run(source, tmp_path / "out" / "below")


@pytest.mark.parametrize("target", [".", "sub", "sub/new", "../source"])
def test_source_and_destination_must_be_apart(source: Path, target: str) -> None:
    with pytest.raises(ConfigError, match="the same|inside the source"):
        run(source, source / target)
    with pytest.raises(ConfigError, match="the same"):
        run(source / "a.json", source)


def test_a_staged_folder_is_itself_a_source(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "one")
    run(tmp_path / "one", tmp_path / "two")
    assert tree(tmp_path / "two") == CONTENT


def test_what_cannot_be_read_is_refused_unless_left_out(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(BadDataError, match="'pipe' cannot be staged, it is a named pipe"):
        run(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run(source, tmp_path / "out", selection=Patterns(ignore=("pipe",)))


def test_nothing_to_stage_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(SourceNotFoundError, match="it is empty"):
        run(tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_source_that_became_empty_does_not_pass_for_done(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    for file in sorted(source.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.raises(SourceNotFoundError, match="it is empty"):
        run(source, tmp_path / "out")
    assert verify(tmp_path / "out").ok


def test_a_damaged_manifest_is_an_error_until_replace(source: Path, tmp_path: Path, tree: Tree) -> None:
    run(source, tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text("{")
    with pytest.raises(DamagedManifestError, match="REPLACE=true"):
        run(source, tmp_path / "out")
    run(source, tmp_path / "out", replace_other=True)
    assert verify(tmp_path / "out").ok


def test_progress_goes_up_to_everything(source: Path, tmp_path: Path) -> None:
    seen: list[StageProgress] = []
    run(source, tmp_path / "out", observer=seen.append)
    total = sum(map(len, CONTENT.values()))
    assert [progress.bytes for progress in seen] == sorted(progress.bytes for progress in seen)
    last = seen[-1]
    assert (last.files, last.files_total, last.bytes, last.bytes_total) == (6, 6, total, total)
    assert (last.percent, last.remaining_seconds) == (100, 0)


def test_many_small_files_come_over(tmp_path: Path, tree: Tree) -> None:
    source = tmp_path / "source"
    for index in range(500):
        (source / f"{index % 7}").mkdir(parents=True, exist_ok=True)
        (source / f"{index % 7}" / f"{index}.txt").write_text(str(index))
    assert run(source, tmp_path / "out").files == 500
    assert tree(tmp_path / "out") == tree(source)
    assert run(source, tmp_path / "out").was_complete
