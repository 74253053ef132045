"""kill -9 at every single step that touches the disk, and then run again.

A child process stages and is killed at its n-th file system call (audit events tell of each), n = 1, 2, ... until it
gets through. After each kill: what looks complete is complete, and the next run makes it so.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.contract.paths import MANIFEST

SCRIPT = """
import os, shutil, signal, sys, time
from pathlib import Path
from trainyard.contract.paths import MANIFEST
from trainyard.storage.local_source import LocalSource
from trainyard.storage.stage import stage
from trainyard.storage.verify import verify
import trainyard.storage.file_system, ctypes, importlib.metadata, urllib.parse

scenario, place = sys.argv[1], Path(sys.argv[2])
source, out = place / "source", place / "out"
OLD = {"a": b"old", "sub/same": b"same", "gone": b"gone", "folder/x": b"x"}
NEW = {"a": b"new!", "sub/same": b"same", "sub/new": b"n" * 1_200_000, "folder": b"now a file"}
WATCHED = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.scandir"}

def write(contents):
    keep = {name: (source / name).stat() for name in contents if (source / name).is_file()}
    shutil.rmtree(source, ignore_errors=True)
    for name, data in contents.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
        if name in keep and keep[name].st_size == len(data):
            os.utime(source / name, ns=(keep[name].st_mtime_ns, keep[name].st_mtime_ns))

def content(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*") if file.is_file() and ".trainyard-" not in str(file.relative_to(folder))
    }

def prepare():
    shutil.rmtree(out, ignore_errors=True)
    if scenario == "update":
        write(OLD)
        stage(LocalSource(source), out, workers=1)
    write(NEW)

def staged_until(step):
    child = os.fork()
    if child == 0:
        seen = 0
        def count(event, arguments):
            nonlocal seen
            if event in WATCHED:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        try:
            stage(LocalSource(source), out, workers=1)
        except BaseException:
            import traceback; traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

step, kills = 0, 0
while True:
    step += 1
    prepare()
    code = staged_until(step)
    if (out / MANIFEST).exists():
        assert verify(out).ok, f"killed at {step}: looks complete and is not"
        assert content(out) in (OLD, NEW), f"killed at {step}: {sorted(content(out))}"
    if code == 0:
        break
    assert code == -signal.SIGKILL, code
    kills += 1
    if step % 3 == 0:
        staged_until(step // 2)  # Killed again, on the way back.
    report = stage(LocalSource(source), out)
    assert content(out) == NEW, f"killed at {step}: {sorted(content(out))}"
    assert verify(out).ok
    assert sorted(file.name for file in out.iterdir()) == [MANIFEST, "a", "folder", "sub"], list(out.iterdir())
print(kills)
"""


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a kill is a kill there too, and hundreds of flushes cost nothing."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("scenario", ["first", "update"])
def test_a_kill_at_any_step_leaves_nothing_that_looks_complete(quick: Path, scenario: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, scenario, str(quick)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


LARGE = """
    import sys, time
    from pathlib import Path
    from trainyard.storage.local_source import LocalReader, LocalSource
    from trainyard.storage.stage import stage

    class Hanging(LocalReader):
        __slots__ = ()
        def confirm(self):
            print("hanging", flush=True)
            time.sleep(600)

    class Source(LocalSource):
        def open(self, file, start=0, stop=None):
            reader = super().open(file, start, stop)
            if sys.argv[3:] and file.path == "large":
                # Not before the others are done: all three have their names.
                while not all((Path(sys.argv[2]) / name).exists() for name in "abc"):
                    time.sleep(0.01)
                reader.__class__ = Hanging
            return reader

    print(stage(Source(Path(sys.argv[1])), Path(sys.argv[2])).staged_files)
"""


def test_files_done_before_a_kill_in_the_middle_of_a_large_one_are_kept(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in ("a", "b", "c", "large"):
        (tmp_path / "source" / name).write_bytes(name.encode())
    command = [sys.executable, "-c", textwrap.dedent(LARGE), str(tmp_path / "source"), str(tmp_path / "out")]
    process = subprocess.Popen([*command, "hang"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    process.kill()
    process.communicate()
    assert not (tmp_path / "out" / "large").exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1\n"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [MANIFEST, "a", "b", "c", "large"]
