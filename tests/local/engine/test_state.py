"""What readers see of jobs that ended badly, and what delete leaves."""

import json
import os

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.store import job_folder as files
from trainyard.local.store.job_folder import JobFolder, remove_tree
from trainyard.local.store.liveness import ProcessIdentity, is_locked
from trainyard.local.store.state import StateDir, default_state_dir


@pytest.fixture
def folder(tmp_path):
    made = JobFolder.create(tmp_path / "default" / "j")
    made.write_yaml(files.TRAIN_JOB, [{"kind": "TrainJob", "metadata": {"name": "j"}}])
    made.claim()
    status = {"phase": "Running", "jobsStatus": [{"name": "node", "ready": 1, "active": 1, "failed": 0}]}
    made.write_json(files.STATUS, {"metadata": {"name": "j"}, "status": status})
    container = {"name": "node", "state": "running"}
    made.write_json(files.PODS, [{"name": "j-node-0-0", "phase": "Running", "containers": [container]}])
    yield made
    made.close()


def test_a_running_job_is_shown_as_it_is(folder, tmp_path):
    job = StateDir(tmp_path).job("default", "j")
    assert job.is_alive() and job.status()["status"]["phase"] == "Running"
    assert job.pods()[0]["phase"] == "Running"
    with pytest.raises(ConfigError, match="this very process runs it"):
        job.delete(stop_seconds=0)


def test_a_job_that_nobody_runs_any_more_is_failed(folder, tmp_path):
    folder.close()
    job = StateDir(tmp_path).job("default", "j")
    status = job.status()["status"]
    assert not job.is_alive() and job.is_finished()
    assert (status["phase"], status["jobsStatus"][0]["active"], status["jobsStatus"][0]["failed"]) == ("Failed", 0, 1)
    assert status["conditions"][-1]["reason"] == "SupervisorDied" and f"pid {os.getpid()}" in status["message"]
    assert job.status() == job.status()
    assert job.pods()[0]["containers"][0]["exitCode"] == 137


def test_a_finished_job_stays_as_it_ended(folder, tmp_path):
    condition = {"type": "Complete", "status": "True"}
    folder.write_json(files.STATUS, {"status": {"phase": "Complete", "conditions": [condition]}})
    folder.close()
    job = StateDir(tmp_path).job("default", "j")
    assert job.status()["status"]["phase"] == "Complete" and job.pods()[0]["phase"] == "Running"


def test_delete_removes_everything_also_what_was_made_read_only(folder, tmp_path):
    folder.close()
    inner = folder.path / "volumes" / "v" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    inner.chmod(0o500)
    StateDir(tmp_path).job("default", "j").delete()
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_before_the_first_container_is_taken_over(tmp_path):
    path = tmp_path / "default" / "j"
    path.mkdir(parents=True)
    (path / "plan.yaml").write_text("half")
    folder = JobFolder.create(path)
    assert [one.name for one in path.iterdir()] == [files.LOCK]
    folder.discard()
    assert tmp_path.joinpath("default").exists() and not path.exists()


def test_events_and_texts_survive_odd_characters(folder, tmp_path):
    folder.append_event({"message": "bad \udcff byte, newline \n"})
    with (folder.path / files.EVENTS).open("a") as file:
        file.write('{"half": ')
    job = StateDir(tmp_path).job("default", "j")
    assert [event["message"] for event in job.events()] == ["bad ? byte, newline \n"]
    folder.write_yaml(files.PLAN, [{"text": "a\nb\n", "yes": "true"}])
    assert "text: |" in (folder.path / files.PLAN).read_text()
    assert job.plan() == [{"text": "a\nb\n", "yes": "true"}]


def test_a_process_is_known_by_more_than_its_pid():
    me = ProcessIdentity.current()
    assert me.is_alive() and ProcessIdentity.from_dict(json.loads(json.dumps(me.to_dict()))) == me
    assert not ProcessIdentity(pid=me.pid, start_time="1", boot_id=me.boot_id).is_alive()
    assert not ProcessIdentity(pid=me.pid, start_time=me.start_time, boot_id="other").is_alive()


def test_readers_do_not_disturb_each_other_or_the_holder(folder):
    lock = folder.path / files.LOCK
    assert is_locked(lock) and is_locked(lock)
    folder.close()
    assert not is_locked(lock)
    with lock.open("rb"):
        assert not is_locked(lock)


def test_the_state_directory_follows_xdg(tmp_path):
    assert default_state_dir({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "trainyard"
    assert default_state_dir({"XDG_STATE_HOME": "relative"}).parts[-3:] == (".local", "state", "trainyard")


def test_hidden_folders_are_no_jobs(folder, tmp_path):
    (tmp_path / ".claims" / "default").mkdir(parents=True)
    (tmp_path / "default" / ".replaced-x").mkdir()
    assert [job.name for job in StateDir(tmp_path).jobs()] == ["j"]
    assert StateDir(tmp_path / "nothing").jobs() == []


def test_removing_a_tree_that_is_not_there_is_nothing(tmp_path):
    remove_tree(tmp_path / "absent")


@pytest.mark.parametrize("content", [b"", b'{"status": {"ph', b"\xff\xfe\x00", b"[1]", b"null", b'{"status": [1]}'])
@pytest.mark.parametrize(
    "name", [files.STATUS, files.PODS, files.PLAN, files.TRAIN_JOB, files.EVENTS, files.SUPERVISOR]
)
def test_a_damaged_file_stops_no_reader_and_is_named(folder, tmp_path, name, content):
    folder.write_yaml(files.PLAN, [{"kind": "JobSet"}])
    folder.close()
    (folder.path / name).write_bytes(content)
    job = StateDir(tmp_path).jobs()[0]
    status = job.status()["status"]
    assert status["phase"] == "Failed" and job.is_finished()
    assert all(isinstance(one, dict) for one in (*job.pods(), *job.events()))
    if name in (files.STATUS, files.PODS):
        assert job.damaged() == [name]
    if name == files.STATUS:
        assert status["conditions"][-1]["reason"] == "StateDamaged" and "status.json' is damaged" in status["message"]
    job.delete()
    assert not folder.path.exists()


def test_remains_without_a_status_can_be_found_for_delete(folder, tmp_path):
    folder.remove(files.STATUS)
    folder.close()
    with pytest.raises(ConfigError, match="no job"):
        StateDir(tmp_path).job("default", "j")
    StateDir(tmp_path).job("default", "j", any_remains=True).delete()
    assert not folder.path.exists()


def test_a_home_that_nobody_knows_is_said(monkeypatch):
    with pytest.raises(ConfigError, match="set HOME or choose a place"):
        StateDir("~nobody-of-this-name/state")
    with pytest.raises(ConfigError, match="got nothing"):
        StateDir("")
