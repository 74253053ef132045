"""The TrainJob's own rules: phases, deadline, suspend and resume, stopping, progress, whom to blame."""

import json
import os
import signal

import pytest

from trainyard.local.store import control


def initializer(write, name, script, **fields):
    return write.replicated(name, script, ancestor=name, **fields)


def test_phases_follow_the_jobs(make_job, write):
    job = make_job(
        initializer(write, "dataset-initializer", "true"),
        write.replicated(
            "node", "true", ancestor="trainer", dependsOn=[{"name": "dataset-initializer", "status": "Complete"}]
        ),
    )
    job.run()
    phases = [snapshot.train_job["status"]["phase"] for snapshot in job.watcher.snapshots]
    assert list(dict.fromkeys(phases)) == ["Queued", "Initializing", "Running", "Complete"]
    assert all("conditions" not in s.train_job["status"] for s in job.watcher.snapshots[:-1])


def test_a_deadline_stops_the_pods_and_keeps_the_folder(make_job, write):
    job = make_job(write.replicated("node", "echo kept > kept; exec sleep 60"), spec={"activeDeadlineSeconds": 1})
    status = job.run()
    [condition] = status["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "TrainJob exceeded its active deadline",
    )
    assert status["message"] == "stopped after activeDeadlineSeconds: 1; still running: j-node-0-0"
    assert status["jobsStatus"][0]["suspended"] == 1  # The JobSet is suspended and kept.
    assert job.lines("kept") == ["kept"]


def test_a_suspended_job_starts_nothing_until_it_is_resumed(make_job, write):
    job = make_job(write.replicated("node", "echo ran >> order"), suspend=True)
    seen = []

    def resume(snapshot):
        status = snapshot.train_job["status"]
        if status["phase"] == "Suspended" and not seen:
            seen.append((status, job.lines()))
            assert control.send(job.path / "control", "resume")

    job.watcher.on_snapshot = resume
    status = job.run()
    [(while_suspended, lines)] = seen
    assert lines == [] and "startTime" not in while_suspended
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in while_suspended["conditions"]] == [
        ("Suspended", "True", "Suspended", "TrainJob is suspended")
    ]
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Suspended", "False", "Resumed"),
        ("Complete", "True", "AllJobsCompleted"),
    ]
    assert job.lines() == ["ran"]


def test_suspending_ends_the_pods_without_failing_and_resuming_starts_them_anew(make_job, write):
    script = "echo $ATTEMPT >> order; [ $ATTEMPT = 1 ] && exit 0; touch up; exec sleep 60"
    probe = {"exec": {"command": ["test", "-e", "up"]}}
    container = write.shell(script, readinessProbe=probe)
    job = make_job(write.replicated("node", container), failurePolicy={"maxRestarts": 0})
    asked = []

    def act(snapshot):
        status = snapshot.train_job["status"]
        if not asked and snapshot.pods and snapshot.pods[0]["ready"]:
            asked.append("suspend")
            control.send(job.path / "control", "suspend")
        elif asked == ["suspend"] and status["phase"] == "Suspended" and snapshot.pods[0]["phase"] == "Failed":
            asked.append(status["jobsStatus"][0])
            control.send(job.path / "control", "resume")

    job.watcher.on_snapshot = act
    status = job.run()
    assert status["phase"] == "Complete" and job.lines() == ["0", "1"]
    assert asked[1]["suspended"] == 1 and asked[1]["failed"] == 0


def test_one_signal_stops_the_job_within_the_grace_period(make_job, write):
    script = "trap 'echo stopped >> order; exit 0' TERM; touch up; while :; do sleep 0.01; done"
    probe = {"exec": {"command": ["test", "-e", "up"]}}
    job = make_job(write.replicated("node", write.shell(script, readinessProbe=probe)))
    job.watcher.on_snapshot = lambda snapshot: (
        os.kill(os.getpid(), signal.SIGINT) if any(pod["ready"] for pod in snapshot.pods) else None
    )
    before = signal.getsignal(signal.SIGINT)
    job.engine.run(signals=(signal.SIGINT, signal.SIGTERM))
    assert signal.getsignal(signal.SIGINT) is before
    assert job.lines() == ["stopped"] and job.engine.stopped_by == signal.SIGINT
    [condition] = job.status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "Stopped")
    assert job.status["message"] == "stopped by SIGINT (Ctrl-C)"


def test_a_second_signal_kills_at_once(make_job, write):
    script = "trap '' TERM; touch up; while :; do sleep 0.05; done"
    probe = {"exec": {"command": ["test", "-e", "up"]}}
    job = make_job(write.replicated("node", write.shell(script, readinessProbe=probe)))

    def interrupt(snapshot):
        stopping = any(event["reason"] == "Stopping" for event in job.watcher.events)
        if stopping or any(pod["ready"] for pod in snapshot.pods):
            job.engine.interrupt(signal.SIGTERM)

    job.watcher.on_snapshot = interrupt
    status = job.run()
    assert status["message"] == "stopped by SIGTERM" and job.container("j-node-0-0")["exitCode"] == 137


def test_stopping_starts_nothing_more(make_job, write):
    job = make_job(
        write.replicated("first", "touch up; exec sleep 60"),
        write.replicated("second", "echo second >> order", dependsOn=[{"name": "first", "status": "Complete"}]),
        failurePolicy={"maxRestarts": 5},
    )
    job.watcher.on_snapshot = lambda snapshot: control.send(job.path / "control", "stop") if snapshot.pods else None
    assert job.run()["message"] == "stopped on request"
    assert job.lines() == []


def test_progress_becomes_status(make_job, write):
    job = make_job(write.replicated("node", write.wait_for("go")))
    loss = {"lastUpdatedTime": "2026-11-21T10:00:00Z", "metrics": [{"name": "loss", "value": "1.5"}]}
    job.engine.report_progress("trainer", {**loss, "progressPercentage": 40})
    job.engine.report_progress("model-initializer", {**loss, "progressPercentage": 100})

    def go(snapshot):
        if "trainerStatus" in snapshot.train_job["status"]:
            (job.path / "go").touch()

    job.watcher.on_snapshot = go
    status = job.run()
    assert status["trainerStatus"] == {**loss, "progressPercentage": 40}
    assert status["initializerStatus"] == {"model": {**loss, "progressPercentage": 100}}


@pytest.mark.parametrize(
    ("first", "second", "blamed"),
    [("exit 1", "exit 68", 1), ("exit 75", "exit 1", 1), ("kill -9 $$", "exit 70", 0), ("exit 3", "exit 4", 0)],
    ids=["permanent-beats-own", "lost-peer-loses", "killed-before-bug", "earliest"],
)
def test_the_cause_is_named_and_not_its_consequence(make_job, write, first, second, blamed):
    # Both pods of one Job: it ends only when its policy says, so both get to fail by themselves.
    script = f"if [ $INDEX = 0 ]; then touch first; {first}; fi; " + write.wait_for("first", f"sleep 0.1; {second}")
    spec = {"parallelism": 2, "completions": 2, "backoffLimitPerIndex": 0, "backoffLimit": None}
    job = make_job(write.replicated("node", script, job=spec))
    assert job.run()["message"].startswith(f"pod j-node-0-{blamed}, container c: exit code")


def test_an_observer_that_fails_does_not_end_the_job(make_job, write):
    job = make_job(write.replicated("node", "true"))

    def fail(snapshot):
        raise BrokenPipeError("nobody reads")

    job.watcher.on_snapshot = fail
    job.engine.run()
    written = json.loads((job.path / "status.json").read_text())
    assert written["status"]["phase"] == "Complete"
    events = (job.path / "events.jsonl").read_text()
    assert "ObserverFailed" in events
