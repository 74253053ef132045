"""`run` with the real parts: plan, pods, processes, state folder; what is wrong leaves nothing behind."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainyard.contract.errors import CannotWriteError, ConfigError, NoSpaceError, TrainyardError
from trainyard.local import run
from trainyard.local.store import job_folder
from trainyard.local.store.state import StateDir

DEADLINE_SECONDS = 20.0


def wait_until(check):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE_SECONDS} s")


def runtime(**spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "python:3.11"}]}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "plain"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job], **spec}}},
    }


def train_job(script, name="j", **spec):
    trainer = {"command": ["sh", "-c", script], **spec.pop("trainer", {})}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": "plain"}, "trainer": trainer, **spec},
    }


@pytest.fixture
def start(tmp_path):
    """Runs jobs in one state directory, and ends what is left of them."""

    def run_job(script, name="j", **options):
        spec = options.pop("spec", {})
        options.setdefault("runtime", runtime())
        options.setdefault("isolation", "mapped")
        return run(train_job(script, name, **spec), state_dir=tmp_path / "state", **options)

    yield run_job
    for job in StateDir(tmp_path / "state").jobs():
        job.delete(stop_seconds=0.5)


@pytest.fixture
def jobs(tmp_path):
    return StateDir(tmp_path / "state")


def test_a_job_runs_to_complete_and_its_folder_tells_all(start, jobs):
    result = start("echo hello from $POD_NAME", spec={"trainer": {"env": [{"name": "POD_NAME", "value": "here"}]}})
    assert (result.exit_code, result.status["phase"], result.succeeded) == (0, "Complete", True)
    job = jobs.job("default", "j")
    assert job.status() == result.train_job and job.folder == result.folder
    assert job.train_job()["spec"]["runtimeRef"] == {"name": "plain"}
    assert job.runtime()["metadata"]["name"] == "plain"
    assert [document["kind"] for document in job.plan()][-1] == "JobSet"
    assert job.log_path("j-node-0-0", "node").read_text() == "hello from here\n"
    assert [event["reason"] for event in job.events()][-1] == "Complete"
    assert job.is_finished() and not job.is_alive() and job.processes() == []
    assert job.folder.stat().st_mode & 0o777 == 0o700
    assert job.folder.joinpath("status.json").stat().st_mode & 0o777 == 0o600


def test_a_failed_job_gives_1_and_keeps_its_state(start, jobs):
    result = start("echo why; exit 66")
    assert result.exit_code == 1 and "exit code 66" in result.status["message"]
    assert jobs.job("default", "j").status()["status"]["phase"] == "Failed"


def test_secrets_reach_the_container_and_no_readable_file(start, jobs):
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"KEY": "tops3cret"}}
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "KEY"}}}]
    start('test "${#KEY}" = 9', secrets=[secret], spec={"trainer": {"env": env}})
    job = jobs.job("default", "j")
    assert job.status()["status"]["phase"] == "Complete"
    holding = [path for path in job.folder.rglob("*") if path.is_file() and b"tops3cret" in path.read_bytes()]
    assert holding == []


def test_progress_arrives_over_http(start, jobs):
    code = (
        "import os, json, urllib.request as u\n"
        "e = os.environ\n"
        "token = open(e['KUBEFLOW_TRAINER_SERVER_TOKEN']).read()\n"
        "body = {'trainerStatus': {'lastUpdatedTime': '2026-11-21T10:00:00Z', 'progressPercentage': 50}}\n"
        "bearer = {'Authorization': 'Bearer ' + token}\n"
        "r = u.Request(e['KUBEFLOW_TRAINER_SERVER_URL'], json.dumps(body).encode(), bearer)\n"
        "u.build_opener(u.ProxyHandler({})).open(r).read()\n"
    )
    result = start("", spec={"trainer": {"command": [sys.executable, "-c", code]}})
    assert result.status["phase"] == "Complete", result.status
    assert result.status["trainerStatus"]["progressPercentage"] == 50


@pytest.mark.parametrize("ttl", [0, 3600])
def test_the_time_to_live_removes_pods_and_logs_and_keeps_status_and_claims(start, jobs, ttl):
    claim = {"metadata": {"name": "initializer"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    with_ttl = runtime(ttlSecondsAfterFinished=ttl, volumeClaimPolicies=[{"templates": [claim]}])
    node = with_ttl["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    node["containers"][0]["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]
    result = start("echo model > /workspace/output", runtime=with_ttl)
    job = jobs.job("default", "j")
    assert result.exit_code == 0 and job.status()["status"]["phase"] == "Complete"
    assert job.folder.joinpath("logs").exists() == (ttl > 0)
    assert job.folder.joinpath("pods").exists() == (ttl > 0)
    [output] = job.folder.glob("volumes/*/output")
    assert output.read_text() == "model\n"


def test_a_name_in_use_is_refused_and_says_how_to_delete(start, jobs):
    start("true")
    with pytest.raises(ConfigError, match="job 'j' exists in .*trainyard delete j.*--replace"):
        start("true")
    before = jobs.job("default", "j").created_at
    assert start("true", replace=True).exit_code == 0
    assert jobs.job("default", "j").created_at > before
    assert [path.name for path in (jobs.path / "default").iterdir()] == ["j"]


def test_a_running_job_cannot_be_replaced(start, jobs):
    start("exec sleep 60", detach=True)
    with pytest.raises(ConfigError, match="is running"):
        start("true", replace=True)
    assert jobs.job("default", "j").is_alive()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"spec": {"trainer": {"command": ["no-such-command"]}}}, "no-such-command"),
        ({"spec": {"trainer": {"image": "example.com/unknown:1"}}}, "example.com/unknown:1"),
        ({"spec": {"trainer": {"numNodes": -1}}}, "numNodes"),
        ({"devices": "tpu"}, "expected auto, cpu or cuda"),
        ({"runtime": runtime(startupPolicy={"startupPolicyOrder": "Sideways"})}, "startupPolicyOrder"),
    ],
    ids=["command", "image", "nodes", "devices", "policy"],
)
def test_what_is_wrong_before_the_start_leaves_nothing(start, jobs, options, found):
    with pytest.raises(TrainyardError, match=found):
        start("true", **options)
    assert not jobs.path.exists()


def test_a_refused_replacement_keeps_the_old_job(start, jobs):
    start("echo old")
    with pytest.raises(TrainyardError):
        start("true", replace=True, spec={"trainer": {"command": ["no-such-command"]}})
    job = jobs.job("default", "j")
    assert job.status()["status"]["phase"] == "Complete"
    assert job.log_path("j-node-0-0", "node").read_text() == "old\n"


def test_a_missing_runtime_is_one_sentence(tmp_path):
    job = train_job("true")
    job["spec"]["runtimeRef"]["name"] = "torch-distribute"
    with pytest.raises(ConfigError, match="torch-distributed"):
        run(job, state_dir=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_an_unwritable_state_directory_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWriteError, match="--state-dir") as error:
        run(train_job("true"), runtime=runtime(), state_dir=tmp_path / "file" / "state")
    assert "\n" not in str(error.value)


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(job_folder, "LEAST_FREE_BYTES", 2**62)
    with pytest.raises(NoSpaceError, match="MiB are free"):
        run(train_job("true"), runtime=runtime(), state_dir=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_caller_can_back_out_after_the_checks(start, jobs):
    def back_out():
        raise RuntimeError("another job is wrong")

    with pytest.raises(RuntimeError):
        start("true", on_checked=back_out)
    assert not jobs.path.exists()


def test_several_nodes_find_each_other_by_name(start):
    # Node 0 listens where the plan says that it does; node 1 says hello to it.
    code = (
        "import os, socket, time\n"
        "host, port = os.environ['ADDR'].rsplit(':', 1)\n"
        "if os.environ['RANK'] == '0':\n"
        "    c, _ = socket.create_server(('', int(port))).accept()\n"
        "    print(c.recv(9).decode())\n"
        "else:\n"
        "    end = time.monotonic() + 10\n"
        "    while True:\n"
        "        try: s = socket.create_connection((host, int(port)))\n"
        "        except OSError:\n"
        "            assert time.monotonic() < end\n"
        "            time.sleep(0.02)\n"
        "        else: s.sendall(b'hello'); break\n"
    )
    index = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    env = [{"name": "ADDR", "value": "j-node-0-0.j:29500"}, {"name": "RANK", "valueFrom": index}]
    trainer = {"command": [sys.executable, "-I", "-S", "-c", code], "numNodes": 2, "env": env}
    result = start("", spec={"trainer": trainer})
    assert result.exit_code == 0, result.status
    assert (result.folder / "logs" / "j-node-0-0" / "node.log").read_text() == "hello\n"


def test_a_background_job_survives_the_process_that_started_it(tmp_path, jobs):
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"items": [train_job("exec sleep 60"), runtime()], "kind": "List", "apiVersion": "v1"}))
    code = (
        "import sys; from trainyard.local import run\n"
        "r = run(sys.argv[1], state_dir=sys.argv[2], detach=True, isolation='mapped'); print(r.exit_code)"
    )
    out = subprocess.check_output([sys.executable, "-c", code, str(job), str(jobs.path)], text=True)
    assert out == "0\n"
    state = jobs.job("default", "j")
    try:
        wait_until(lambda: state.status()["status"]["phase"] == "Running")
        supervisor = state.supervisor()
        assert supervisor.pid == os.getsid(supervisor.pid) and state.is_alive()
    finally:
        state.delete(stop_seconds=2)
    wait_until(lambda: not supervisor.is_alive())
    assert state.processes() == [] and not state.folder.exists()


def test_an_error_at_the_start_of_a_background_job_is_raised_here(start, jobs):
    with pytest.raises(TrainyardError, match="no-such-command"):
        start("true", detach=True, spec={"trainer": {"command": ["no-such-command"]}})
    assert not jobs.path.exists()


def test_a_background_job_is_suspended_resumed_and_stopped_by_request(start, jobs):
    start("exec sleep 60", detach=True)
    job = jobs.job("default", "j")

    def phase_is(wanted):
        return lambda: job.status()["status"]["phase"] == wanted

    wait_until(lambda: [pod for pod in job.pods() if pod["ready"]])
    assert job.suspend()
    wait_until(phase_is("Suspended"))
    wait_until(lambda: job.processes() == [])
    assert job.resume()
    wait_until(lambda: [pod for pod in job.pods() if pod["ready"]])
    wait_until(phase_is("Running"))
    assert job.stop()
    wait_until(phase_is("Failed"))
    assert job.status()["status"]["conditions"][-1]["reason"] == "Stopped"
    wait_until(lambda: not job.is_alive())
    assert not job.stop()


def test_a_killed_supervisor_takes_its_containers_with_it_and_the_job_is_failed(start, jobs):
    start("(setsid sleep 60 &) ; exec sleep 60", detach=True)
    job = jobs.job("default", "j")
    wait_until(lambda: [pod for pod in job.pods() if pod["ready"]])
    os.kill(job.supervisor().pid, signal.SIGKILL)
    wait_until(lambda: not job.is_alive() and job.processes() == [])
    status = job.status()["status"]
    assert (status["phase"], status["conditions"][-1]["reason"]) == ("Failed", "SupervisorDied")
    assert "ended without finishing" in status["message"] and status["completionTime"]
    [pod] = job.pods()
    assert (pod["phase"], pod["containers"][0]["state"]) == ("Failed", "terminated")
    assert start("true", replace=True).exit_code == 0


def test_ctrl_c_stops_everything_and_gives_130(tmp_path, jobs):
    code = (
        "import sys, json; from trainyard.local import run\n"
        "r = run(json.loads(sys.argv[1]), runtime=json.loads(sys.argv[2]), state_dir=sys.argv[3], isolation='mapped')\n"
        "sys.exit(r.exit_code)"
    )
    documents = [json.dumps(train_job("(setsid sleep 60 &) ; exec sleep 60")), json.dumps(runtime())]
    process = subprocess.Popen([sys.executable, "-c", code, *documents, str(jobs.path)])
    try:
        [job] = wait_until(jobs.jobs)
        wait_until(lambda: [pod for pod in job.pods() if pod["ready"]])
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 130
    finally:
        process.kill()
        process.wait()
    assert job.processes() == []
    assert job.status()["status"]["message"] == "stopped by SIGINT (Ctrl-C)"


def test_jobs_run_side_by_side_on_ports_of_their_own(start, jobs):
    script = 'echo "$ADDR"; exec sleep 60'
    for name in ("one", "two", "three"):
        env = [{"name": "ADDR", "value": f"{name}-node-0-0.{name}:29500"}]
        start(script, name, detach=True, spec={"trainer": {"env": env}})
    found = [jobs.job("default", name) for name in ("one", "two", "three")]
    logs = [job.log_path(f"{job.name}-node-0-0", "node") for job in found]
    wait_until(lambda: all(log.exists() and log.read_text() for log in logs))
    ports = {log.read_text().strip().rpartition(":")[2] for log in logs}
    assert len(ports) == 3 and "29500" not in ports
    assert [job.name for job in jobs.jobs()] == ["one", "two", "three"]


def test_an_unknown_job_is_named_with_its_nearest(start, jobs):
    start("true", "train-one")
    with pytest.raises(ConfigError, match="did you mean 'train-one'"):
        jobs.job("default", "train-on")
    with pytest.raises(ConfigError, match="namespace 'default'"):
        jobs.job("other", "train-one")
    with pytest.raises(ConfigError, match="expected lower-case"):
        jobs.job("default", "../other")


def test_a_file_with_job_and_runtime_runs(tmp_path):
    folder = Path(tmp_path, "in")
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(train_job("true")))
    (folder / "b.json").write_text(json.dumps(runtime()))
    result = run(folder, state_dir=tmp_path / "state", isolation="mapped")
    assert result.exit_code == 0


def test_far_too_many_nodes_are_refused_at_once(start, jobs):
    with pytest.raises(ConfigError, match="99999999 pods, and one machine runs at most 4096"):
        start("true", spec={"trainer": {"numNodes": 99_999_999}})
    assert jobs.jobs() == []


def test_the_end_is_written_down_also_when_the_output_has_filled_the_disk(start, jobs, monkeypatch):
    write = job_folder.JobFolder._write

    def write_on_a_full_disk(folder, name, data):
        if (folder.path / "pods" / "j-node-0-0").exists() and (folder.path / job_folder.RESERVE).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(folder, name, data)

    monkeypatch.setattr(job_folder.JobFolder, "_write", write_on_a_full_disk)
    assert start("exit 74").exit_code == 1
    job = jobs.job("default", "j")
    assert "exit code 74" in job.status()["status"]["message"]
    assert job.pods()[0]["containers"][0]["exitCode"] == 74
    assert not (job.folder / job_folder.RESERVE).exists()


def test_how_to_delete_names_the_state_directory(start, jobs):
    start("true")
    with pytest.raises(ConfigError, match=f"trainyard delete j --state-dir {re.escape(str(jobs.path))}"):
        start("true")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_start_leaves_nothing_and_keeps_the_replaced_job(start, jobs, signum):
    start("echo first")
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        start("echo second", replace=True, on_checked=lambda: signal.raise_signal(signum))
    assert [folder.name for folder in (jobs.path / "default").iterdir()] == ["j"]
    assert jobs.job("default", "j").log_path("j-node-0-0", "node").read_text() == "first\n"
