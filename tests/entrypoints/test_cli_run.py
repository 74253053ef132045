"""`trainyard run` and the commands around a job, with real jobs in a state directory of the test."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from trainyard.entrypoints.cli.main import app
from trainyard.local.store.state import StateDir

TRAINYARD = Path(sys.executable).with_name("trainyard")
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "plain"},
    "spec": {
        "mlPolicy": {"numNodes": 1},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {
                                "backoffLimit": 0,
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "terminationGracePeriodSeconds": 5,
                                        "containers": [{"name": "node", "image": "python"}],
                                    }
                                },
                            },
                        },
                    }
                ]
            }
        },
    },
}


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    directory = StateDir(tmp_path / "state" / "trainyard")
    yield directory
    for job in directory.jobs():
        job.delete()


@pytest.fixture
def trainyard(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run the command in this process: a process of its own costs half a second."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state.path.parent))

    def call(*arguments: str, stdin: str = "") -> Done:
        result = CliRunner(env={"NO_COLOR": "1"}).invoke(app, arguments, input=stdin)
        return Done(result.exit_code, result.stdout, result.stderr)

    return call


def job(name: str, script: str, *, nodes: int = 1, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": "plain"},
            "trainer": {"numNodes": nodes, "command": ["sh", "-c"], "args": [script]},
            **spec,
        },
    }


def stream(*jobs: dict[str, Any]) -> str:
    return yaml.safe_dump_all([RUNTIME, *jobs])


def until(condition: Callable[[], Any], *, seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
    return found


def test_a_run_prints_prefixed_lines_and_where_the_results_are(trainyard: Callable[..., Done]) -> None:
    script = """mkdir -p /workspace/output/adapter
    echo '{"step": 1, "loss": 2.5}' > /workspace/output/metrics.jsonl
    echo '{"step": 2, "loss": 0.5}' >> /workspace/output/metrics.jsonl
    printf '\\033[31mred\\033[0m\\n10 %%\\r20 %%\\n'"""
    done = trainyard("run", "-", stdin=stream(job("tiny", script)))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:4] == ["node-0: started", "node-0 | red", "node-0 | 20 %", "node-0: succeeded after 0s"]
    assert re.fullmatch(r"✓ tiny  Complete  \d+s", lines[4])
    assert lines[5].strip().startswith("final loss:  0.5 (first 2.5)")
    assert "\x1b" not in done.stdout
    adapter = next(line.split()[-1] for line in lines if "adapter:" in line)
    assert Path(adapter).is_dir()


def test_a_failed_run_shows_container_code_meaning_log_and_what_to_try(trainyard: Callable[..., Done]) -> None:
    script = "for i in $(seq 20); do echo line $i; done; echo no such folder >&2; exit 66"
    done = trainyard("run", "-", stdin=stream(job("bad", script)))
    assert done.returncode == 1
    summary = done.stdout[done.stdout.index("✗ bad  Failed") :]
    assert "node-0, container node: exit code 66 (the source, or a file in it, does not exist)" in summary
    assert "│ no such folder" in summary
    assert "│ line 2\n" not in summary
    assert "to try:       check storageUri" in summary
    assert "trainyard logs bad --step node-0" in summary
    again = trainyard("run", "-", "--quiet", "--replace", stdin=stream(job("bad", "exit 3")))
    assert (again.returncode, again.stdout) == (1, "")
    assert "exit code 3 (an exit code of the program's own)" in again.stderr


def test_several_jobs_run_at_once_and_the_worst_decides(trainyard: Callable[..., Done], tmp_path: Path) -> None:
    meet = f"touch {tmp_path}/$0; while ! test -e {tmp_path}/$1; do sleep 0.02; done"
    one = job("one", f"{meet.replace('$0', 'one').replace('$1', 'two')}; echo met")
    two = job("two", f"{meet.replace('$0', 'two').replace('$1', 'one')}; exit 9")
    done = trainyard("run", "-", stdin=stream(one, two))
    assert done.returncode == 1
    assert "one/node-0 | met" in done.stdout
    assert "✓ one  Complete" in done.stdout
    assert "✗ two  Failed" in done.stdout


def test_when_one_of_several_is_wrong_none_starts_and_nothing_stays(
    trainyard: Callable[..., Done], state: StateDir, tmp_path: Path
) -> None:
    wrong = job("wrong", "x")
    wrong["spec"]["trainer"]["command"] = ["no-such-command"]
    done = trainyard("run", "-", stdin=stream(job("good", f"touch {tmp_path}/ran"), wrong))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'no-such-command' does not exist" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert state.jobs() == []


def test_the_result_is_the_train_job_for_programs(trainyard: Callable[..., Done]) -> None:
    done = trainyard("run", "-", "-o", "json", stdin=stream(job("tiny", "echo hello")))
    result = json.loads(done.stdout)
    assert (result["kind"], result["status"]["phase"]) == ("TrainJob", "Complete")
    assert "node-0 | hello" in done.stderr


def test_a_name_in_use_is_refused_until_it_is_replaced(trainyard: Callable[..., Done]) -> None:
    assert trainyard("run", "-", "-q", stdin=stream(job("twice", "exit 0"))).returncode == 0
    refused = trainyard("run", "-", "-q", stdin=stream(job("twice", "exit 0")))
    assert refused.returncode == 2
    assert "job 'twice' exists" in refused.stderr
    assert "--replace" in refused.stderr
    assert trainyard("run", "-", "-q", "--replace", stdin=stream(job("twice", "exit 0"))).returncode == 0


def test_a_background_job_is_followed_waited_for_described_and_deleted(
    trainyard: Callable[..., Done], state: StateDir, tmp_path: Path
) -> None:
    script = f"echo begin; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo end"
    begun = trainyard("run", "-", "--detach", stdin=stream(job("back", script, nodes=2)))
    assert begun.returncode == 0
    assert "trainyard logs back -f" in begun.stdout
    assert trainyard("list").stdout.splitlines()[0].split()[:3] == ["NAME", "STATE", "STEPS"]
    timed_out = trainyard("wait", "back", "--timeout", "0s")
    assert timed_out.returncode == 124
    assert trainyard("wait", "back", "--for", "running", "--timeout", "30s").returncode == 0
    until(lambda: "begin" in trainyard("logs", "back", "--step", "node-1").stdout)
    with subprocess.Popen([TRAINYARD, "logs", "back", "-f"], stdout=subprocess.PIPE, text=True) as follower:
        (tmp_path / "go").touch()
        followed = follower.communicate(timeout=60)[0].splitlines()
    assert sorted(followed) == ["node-0 | begin", "node-0 | end", "node-1 | begin", "node-1 | end"]
    assert trainyard("wait", "back", "--timeout", "30s").stdout == "back: Complete\n"
    described = trainyard("describe", "back")
    assert re.search(r"State:\s+Complete", described.stdout)
    assert re.search(r"Isolation:\s+(namespace|mapped)", described.stdout)
    assert re.search(r"node\s+Terminated\s+0", described.stdout)
    assert "/workspace →" in described.stdout
    assert trainyard("delete", "back").stdout == "back deleted\n"
    assert state.jobs() == []
    gone = trainyard("describe", "back")
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)


def test_scripts_can_tell_a_failed_job_from_a_missing_one(trainyard: Callable[..., Done]) -> None:
    trainyard("run", "-", "-q", stdin=stream(job("first-job", "exit 77")))
    failed = trainyard("wait", "first-job")
    assert failed.returncode == 1
    assert "exit code 77 (credentials are missing, wrong, or lack the right)" in failed.stderr
    assert trainyard("wait", "first-job", "--for", "failed", "-q").returncode == 0
    missing = trainyard("wait", "frist-job")
    assert missing.returncode == 2
    assert "did you mean 'first-job'?" in missing.stderr
    assert trainyard("wait", "first-job", "--timeout", "soon").returncode == 2
    assert trainyard("delete", "frist-job").returncode == 2
    assert trainyard("delete", "frist-job", "--ignore-not-found").returncode == 0


def test_logs_give_one_step_untouched_its_last_lines_and_the_run_before_a_restart(
    trainyard: Callable[..., Done], tmp_path: Path
) -> None:
    script = f"printf 'a\\n\\033[1mb\\033[0m\\n'; test -e {tmp_path}/second && exit 0; touch {tmp_path}/second; exit 1"
    runtime = json.loads(json.dumps(RUNTIME))
    pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["restartPolicy"] = "OnFailure"
    runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 3
    assert trainyard("run", "-", "-q", stdin=yaml.safe_dump_all([runtime, job("again", script)])).returncode == 0
    assert trainyard("logs", "again", "--step", "node-0").stdout == "a\n\x1b[1mb\x1b[0m\n"
    assert trainyard("logs", "again", "--tail", "1").stdout == "node-0 | b\n"
    assert trainyard("logs", "again", "--previous").stdout == "node-0 | a\nnode-0 | b\n"
    unknown = trainyard("logs", "again", "--step", "node-7")
    assert unknown.returncode == 2
    assert "it has node-0" in unknown.stderr


def test_delete_can_keep_the_output(trainyard: Callable[..., Done], tmp_path: Path) -> None:
    script = "mkdir -p /workspace/output/adapter"
    trainyard("run", "-", "-q", stdin=stream(job("kept", script)))
    refused = trainyard("delete", "kept", "--keep-output", str(tmp_path))
    assert refused.returncode == 2
    assert "it exists" in refused.stderr
    assert trainyard("delete", "kept", "--keep-output", str(tmp_path / "new" / "out")).returncode == 0
    assert (tmp_path / "new" / "out" / "adapter").is_dir()


def run_on_a_terminal(*arguments: str, **environ: str) -> tuple[int, int]:
    """Start the command on a pseudo terminal of 100 columns; gives its pid and our end."""
    import fcntl
    import pty
    import struct
    import termios

    pid, master = pty.fork()
    if pid == 0:
        os.execve(TRAINYARD, [str(TRAINYARD), *arguments], {**os.environ, "TERM": "xterm", **environ})
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    return pid, master


def read_until_end(master: int, on_text: Callable[[str], None] = lambda text: None, *, seconds: float = 60) -> str:
    import select

    seen, deadline = b"", time.monotonic() + seconds
    while select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
        on_text(seen.decode("utf-8", "replace"))
    else:
        pytest.fail(f"it did not end in time; so far: {seen!r}")
    return seen.decode("utf-8", "replace")


def test_a_terminal_gets_the_live_view_and_then_the_summary(state: StateDir, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    script = """mkdir -p /workspace/output; echo '{"loss": 2}' > /workspace/output/metrics.jsonl
    for i in $(seq 10); do echo working $i; sleep 0.1; done"""
    file.write_text(stream(job("shown", script, nodes=2)))
    pid, master = run_on_a_terminal("run", str(file), "--state-dir", str(state.path))
    text = read_until_end(master)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(master)
    frames = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert re.search(r"● node-0  Running", frames)
    assert re.search(r"node-\d │ working \d", frames)
    assert re.search(r"✓ node-1  Succeeded", frames)
    assert re.search(r"loss 2", frames)
    assert frames.rindex("✓ shown  Complete") > frames.rindex("✓ node-1  Succeeded")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is given back"


def test_ctrl_c_stops_everything_and_says_so(state: StateDir, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    script = "trap 'echo bye; exit 1' TERM; echo ready; while :; do sleep 0.05; done"
    file.write_text(stream(job("stopped", script)))
    pid, master = run_on_a_terminal("run", str(file), "--state-dir", str(state.path), TERM="dumb")
    pressed = False

    def press(text: str) -> None:
        nonlocal pressed
        if "node-0 | ready" in text and not pressed:
            pressed = True
            os.write(master, b"\x03")

    text = read_until_end(master, press)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGINT
    os.close(master)
    assert "stopped by SIGINT (Ctrl-C); every process may finish within its grace period" in text
    assert "node-0 | bye" in text
    assert "\x1b" not in text
    assert state.job("default", "stopped").processes() == []


def test_ctrl_c_stops_several_jobs(state: StateDir, tmp_path: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1"}
    command = [TRAINYARD, "run", "-", "--state-dir", str(state.path)]
    jobs = stream(*(job(name, f"touch {tmp_path}/{name}.ready; exec sleep 60") for name in ("one", "two")))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(jobs)
        process.stdin.close()
        until(lambda: process.poll() is not None or len(list(tmp_path.glob("*.ready"))) == 2)
        process.send_signal(signal.SIGINT)
        text = process.stdout.read()
    assert process.returncode == 130
    assert "✗ one  Failed" in text
    assert [left for one in state.jobs() for left in one.processes()] == []


def test_a_job_deleted_from_elsewhere_ends_its_run_without_fuss(state: StateDir, tmp_path: Path) -> None:
    command = [TRAINYARD, "run", "-", "--state-dir", str(state.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(stream(job("gone", f"touch {tmp_path}/ready; exec sleep 60")))
        process.stdin.close()
        until(lambda: process.poll() is not None or (tmp_path / "ready").exists())
        waiting = [TRAINYARD, "wait", "gone", "--for", "complete", "--state-dir", str(state.path)]
        with subprocess.Popen(waiting, stderr=subprocess.PIPE, text=True) as waiter:
            state.job("default", "gone").delete()
            text = process.stdout.read()
            assert waiter.wait(timeout=60) in (1, 2)
    assert process.returncode == 1
    assert text.splitlines()[-1].startswith(("gone  Failed: it has been deleted", "    trainyard", "✗ gone", "  "))
    assert state.jobs() == []


def test_a_job_is_suspended_resumed_and_stopped_from_outside(trainyard: Callable[..., Done], tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/starts; exec sleep 60"
    trainyard("run", "-", "-q", "-d", stdin=stream(job("held", script)))
    starts = tmp_path / "starts"
    until(starts.exists)
    assert trainyard("suspend", "held").stdout == "held is being suspended\n"
    assert trainyard("wait", "held", "--for", "suspended", "--timeout", "30s").returncode == 0
    assert trainyard("resume", "held").returncode == 0
    until(lambda: starts.read_text().count("x") == 2)
    assert trainyard("stop", "held").stdout == "held is stopping\n"
    stopped = trainyard("wait", "held", "--timeout", "30s")
    assert stopped.returncode == 1
    assert "stopped on request" in stopped.stderr
    assert trainyard("resume", "held").returncode == 1
    assert trainyard("stop", "held").returncode == 0


@pytest.mark.parametrize(
    "silencer",
    [">&-", ">&- 2>&-", ">/dev/full", ">/dev/full 2>/dev/full", "| true; exit ${PIPESTATUS[0]}"],
)
def test_the_exit_code_is_the_jobs_also_when_nobody_can_read_of_it(
    state: StateDir, tmp_path: Path, silencer: str
) -> None:
    if silencer.startswith(">/dev/full") and not Path("/dev/full").exists():
        silencer = ">&-"
    file = tmp_path / "job.yaml"
    file.write_text(stream(job("unheard", "echo said")))
    command = f"{TRAINYARD} run {file} --state-dir {state.path} {silencer}"
    assert subprocess.run(["bash", "-c", command], check=False, stderr=subprocess.DEVNULL).returncode == 0
    assert state.job("default", "unheard").status()["status"]["phase"] == "Complete"


def test_the_end_of_the_terminal_is_told_by_the_exit_code(state: StateDir, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(stream(job("hung-up", "echo ready; sleep 60")))
    pid, master = run_on_a_terminal("run", str(file), "--state-dir", str(state.path))
    seen = b""
    while b"ready" not in seen:
        seen += os.read(master, 65536)
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    assert "SIGHUP" in state.job("default", "hung-up").status()["status"]["message"]


def test_jobs_of_one_name_in_two_namespaces_are_told_apart(trainyard: Callable[..., Done]) -> None:
    one, two = job("same", "sleep 0.3"), job("same", "sleep 0.3")
    two["metadata"]["namespace"] = "two"
    done = trainyard("run", "-", stdin=stream(one, two))
    assert done.returncode == 0 and done.stdout.count("node-0: started") == 2
