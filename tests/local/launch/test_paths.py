"""Inside a namespace the very paths exist; outside nothing changes. As this user, and as another one."""

import contextlib
import dataclasses
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers.isolation import detect_isolation

pytestmark = pytest.mark.needs("namespace")

ROOT = Path(__file__).parents[3]
STARTER = Path(__file__).with_name("starter.py")
OTHER_USER = 65534


@dataclass
class User:
    """Runs containers as one user, with files below a folder of that user's."""

    uid: int
    python: str
    prefix: tuple[str, ...]
    folder: Path
    count: int = 0

    def source(self, name: str, content: str | None = None) -> Path:
        """Make a file with this content, or a folder with a file in it."""
        path = self.folder / name
        if content is None:
            path.mkdir()
            self.source(f"{name}/inside", f"in {name}")
        else:
            path.write_text(content)
        os.chown(path, self.uid, -1)
        return path

    def run(self, script: str, *mounts: tuple[Path, str, bool], hostname: str | None = None) -> "Seen":
        """Run a shell script in a container."""
        self.count += 1
        launch = {
            "argv": ["sh", "-c", script],
            "name": f"c{self.count}",
            "folder": str(self.folder / "logs"),
            "hostname": hostname,
            "mounts": [[str(source), target, read_only] for source, target, read_only in mounts],
        }
        ends = self._ends([launch])
        log = self.folder / "logs" / f"c{self.count}.log"
        return Seen(output=log.read_text() if log.exists() else "", **ends[0])

    def _ends(self, launches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = detect_isolation("namespace", {})
        if not self.prefix:
            starter = runpy.run_path(str(STARTER))
            return [starter["run"](starter["to_launch"](launch), found) for launch in launches]
        isolation = dataclasses.replace(found, user_namespace=True)
        done = subprocess.run(
            [*self.prefix, self.python, str(self.folder / "starter.py"), "run"],
            input=json.dumps({"launches": launches, "isolation": dataclasses.asdict(isolation)}),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        ends: list[dict[str, Any]] = json.loads(done.stdout)
        return ends


@dataclass
class Seen:
    """What came of a container."""

    exit_code: int
    reason: str
    message: str
    output: str


@pytest.fixture(params=["this-user", pytest.param("other-user", marks=pytest.mark.needs("other_user"))])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    folder = Path(tempfile.mkdtemp(prefix="trainyard-"))  # tmp_path is closed to other users.
    folder.chmod(0o755)
    shutil.copy(STARTER, folder)
    (folder / "logs").mkdir()
    if request.param == "this-user":
        user = User(os.getuid(), sys.executable, (), folder)
    else:
        for package in ("contract", "local"):
            shutil.copytree(ROOT / package, folder / "trainyard" / package)
        prefix = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
        user = User(OTHER_USER, "/usr/bin/python3", prefix, folder)
        os.chown(folder / "logs", OTHER_USER, -1)
    yield user
    shutil.rmtree(folder)


@pytest.fixture
def target() -> str:
    """Name a top folder that no machine has."""
    return f"/trainyard-{uuid.uuid4().hex[:8]}"


def listing() -> dict[str, list[str]]:
    found = {}
    for folder in ("/", "/etc", "/dev", "/var", "/run", "/root"):
        with contextlib.suppress(OSError):
            found[folder] = sorted(os.listdir(folder))  # noqa: PTH208
    return found


def test_folders_and_files_appear_inside_only(user: User, target: str) -> None:
    data, file = user.source("data"), user.source("file", "hosts")
    before, mounts = listing(), Path("/proc/self/mounts").read_text()
    seen = user.run(
        f"cat {target}/inside {target}/a/b/c {target}-file; cat /etc{target}/deep/file; ls /etc{target};"
        f"cat /etc/hosts; echo back > {target}/made; ls -d /etc/passwd /usr/bin/env",
        (data, target, False),
        (file, f"{target}-file", True),
        (file, f"/etc{target}/deep/file", False),
        (file, "/etc/hosts", True),
        (file, f"{target}/a/b/c", True),
    )
    assert seen.exit_code == 0, seen
    assert seen.output == "in datahostshostshostsdeep\nhosts/etc/passwd\n/usr/bin/env\n"
    assert (data / "made").read_text() == "back\n"
    assert (data / "made").stat().st_uid == user.uid
    assert (listing(), Path("/proc/self/mounts").read_text()) == (before, mounts)


def test_the_paths_of_kubeflow_trainer_are_real(user: User) -> None:
    workspace, dataset, token = user.source("workspace"), user.source("dataset"), user.source("token", "t")
    before = listing()
    targets = ["/workspace", "/workspace/dataset", "/etc/mpi/hostfile", "/var/run/secrets/kubeflow/trainer/token"]
    if user.uid == 0 or os.access("/root", os.X_OK):
        targets.append("/root/.ssh")
    sources = {"/workspace": workspace, "/workspace/dataset": dataset, "/root/.ssh": dataset}
    seen = user.run(
        f"for path in {' '.join(targets)}; do test -e $path || echo missing $path; done;"
        "cat /workspace/dataset/inside; readlink -f /var/run/secrets/kubeflow;"
        "printf why > /dev/termination-log; exit 66",
        *((sources.get(target, token), target, False) for target in targets),
    )
    assert (seen.exit_code, seen.message) == (66, "why")
    assert seen.output == f"in dataset{Path('/var/run').resolve() / 'secrets/kubeflow'}\n"
    assert listing() == before
    assert list((workspace / "dataset").iterdir()) == []


def test_read_only_is_read_only(user: User, target: str) -> None:
    data, file = user.source("data"), user.source("file", "content")
    seen = user.run(
        f"cd {target}; touch made; touch folder/made; (echo x >> inside); rm folder/inside; (echo x > f)",
        (data, target, True),
        (data, f"{target}/folder", True),
        (file, f"{target}/f", True),
    )
    assert seen.output.count("Read-only file system") == 5, seen
    assert [entry.name for entry in data.iterdir()] == ["inside"]
    assert file.read_text() == "content"


def test_a_mount_inside_a_read_only_one_leaves_its_source_alone(user: User, target: str) -> None:
    data, other = user.source("data"), user.source("other")
    seen = user.run(f"cat {target}/inside {target}/new/inside", (data, target, True), (other, f"{target}/new", False))
    assert seen.output == "in datain other"
    assert [entry.name for entry in data.iterdir()] == ["inside"]


def test_links_are_followed_as_the_container_sees_them(user: User, target: str) -> None:
    data, other = user.source("data"), user.source("other")
    (data / "link").symlink_to(f"{target}-elsewhere/folder")
    seen = user.run(f"cat {target}-elsewhere/folder/inside", (data, target, False), (other, f"{target}/link", False))
    assert seen.output == "in other"
    (data / "loop").symlink_to("loop")
    seen = user.run("true", (data, target, False), (other, f"{target}/loop/x", False))
    assert (seen.exit_code, seen.reason) == (128, "StartError")
    assert "symbolic links" in seen.message


def test_a_source_may_lie_below_a_target(user: User, target: str) -> None:
    inner = user.source("data") / "inner"
    inner.mkdir()
    seen = user.run(
        f"ls {user.folder}/data; ls {target}",
        (user.source("empty"), str(user.folder / "data"), False),
        (inner, target, True),
    )
    assert seen.output == "inside\n"


def test_devices_shared_memory_and_sys_still_work(user: User) -> None:
    seen = user.run(
        "echo x > /dev/null && head -c 3 /dev/zero | wc -c && ls /sys | wc -l && f=$(mktemp -p /dev/shm) && rm $f;"
        "echo out > /dev/stdout; echo err > /dev/stderr; ls /dev"
    )
    three, entries, out, err, devices = seen.output.split("\n", 4)
    assert (three, out, err, int(entries) > 3) == ("3", "out", "err", True)
    expected = {*os.listdir("/dev"), "termination-log"}  # noqa: PTH208
    assert set(devices.split()) == expected


def test_processes_have_numbers_of_their_own(user: User) -> None:
    seen = user.run("echo $$; readlink /proc/self; ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm")
    shell, reader, count, first = seen.output.split()
    assert (shell, first) == ("2", "trainyard-keep")
    assert int(reader) < 10
    assert int(count) < 6


def test_the_user_is_the_same_inside(user: User) -> None:
    seen = user.run("id -u; ls -nd /proc/self | awk '{print $3}'; touch made", (user.source("d"), "/workspace", False))
    assert seen.output.split()[:2] == [str(user.uid)] * 2


def test_the_host_name_is_the_pods_and_resolves(user: User) -> None:
    hosts = user.source("hosts", "127.0.0.1 localhost\n127.0.7.1 job-node-0-0.job job-node-0-0\n")
    before = os.uname().nodename
    code = "import socket as s; print(s.gethostname(), s.gethostbyname(s.gethostname()), s.getfqdn())"
    seen = user.run(f'{user.python} -c "{code}"', (hosts, "/etc/hosts", True), hostname="job-node-0-0")
    assert seen.output == "job-node-0-0 127.0.7.1 job-node-0-0.job\n"
    assert os.uname().nodename == before


@pytest.mark.parametrize("user", ["this-user"], indirect=True)
@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("gone", "/workspace", "the source: No such file or directory"),
        ("file", "/etc", "a file cannot be mounted over a folder"),
        ("folder", "/etc/passwd", "a folder cannot be mounted over a file"),
        ("folder", "relative", "expected an absolute path other than '/'"),
        ("folder", "/", "expected an absolute path other than '/'"),
    ],
)
def test_a_mount_that_cannot_be_is_told(user: User, source: str, target: str, words: str) -> None:
    user.source("folder")
    user.source("file", "")
    path = user.folder / source
    seen = user.run("true", (path, target, False))
    assert (seen.exit_code, seen.reason) == (128, "StartError")
    assert seen.message == f"mount {str(path)!r} at {target!r}: {words}"


def test_a_container_inside_a_container_has_paths_of_its_own(user: User, target: str) -> None:
    inner = {
        "launches": [
            {
                "argv": ["cat", f"{target}-inner/inside", f"{target}/a/inside", "/dev/termination-log"],
                "name": "inner",
                "folder": str(user.folder / "logs"),
                "mounts": [[str(user.folder / "data"), f"{target}-inner", True]],
            }
        ],
        "isolation": {"paths": "namespace", "user_namespace": user.uid != 0, "pid_namespace": True},
    }
    user.source("data")
    user.source("request", json.dumps(inner))
    seen = user.run(
        f"PYTHONPATH={user.folder if user.prefix else ''} {user.python} {user.folder}/starter.py run"
        f" < {user.folder}/request",
        (user.folder / "data", f"{target}/a", False),
    )
    assert json.loads(seen.output)[0]["exit_code"] == 0, seen
    assert (user.folder / "logs" / "inner.log").read_text() == "in datain data"


def test_what_is_made_beside_a_mount_is_gone_afterwards(user: User, target: str) -> None:
    before = listing()
    seen = user.run(f"touch {target}-made /dev{target}; ls -d {target}-made /dev{target}")
    if user.uid == 0:
        assert seen.output.split() == [f"/dev{target}", f"{target}-made"]
    assert listing() == before
