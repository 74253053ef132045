"""Steps: how pods are named, what they wait for, how a failure reads."""

from datetime import UTC, datetime
from typing import Any

import pytest

from trainyard.contract.termination import TerminationMessage
from trainyard.entrypoints.cli.steps import steps_of, to_view

NOW = datetime(2026, 11, 21, 10, 1, 0, tzinfo=UTC)


def job(name: str, *, pods: int = 1, replicas: int = 1, after: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": replicas,
        "dependsOn": [{"name": other, "status": "Complete"} for other in after],
        "template": {"spec": {"parallelism": pods, "completions": pods}},
    }


def job_set(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"replicatedJobs": list(jobs)}}


def pod(rjob: str, phase: str, index: int = 0, attempt: int = 0, **container: Any) -> dict[str, Any]:
    status = {"name": rjob, "state": "terminated", "restartCount": 0, "startedAt": "2026-11-21T10:00:00.250Z"}
    return {
        "name": f"j-{rjob}-0-{index}",
        "replicatedJob": rjob,
        "jobIndex": 0,
        "index": index,
        "attempt": attempt,
        "phase": phase,
        "createdAt": f"2026-11-21T10:00:0{attempt}Z",
        "containers": [status | container],
    }


def test_steps_are_named_as_the_sdk_names_them() -> None:
    jobs = job_set(job("dataset-initializer"), job("node", pods=2), job("launcher"), job("helper", replicas=2))
    assert [step.name for step in steps_of(jobs, ())] == [
        "dataset-initializer",
        "node-0",
        "node-1",
        "launcher",
        "helper-0",
        "helper-1",
    ]
    assert [step.name for step in steps_of(job_set(job("node")), ())] == ["node-0"]


def test_a_step_that_is_not_created_says_what_it_waits_for() -> None:
    jobs = job_set(job("model-initializer"), job("node", after=("model-initializer",)))
    view = to_view(steps_of(jobs, [pod("model-initializer", "Running")])[1], NOW, None)
    assert (view.state, view.note, view.seconds) == ("Waiting", "waits for model-initializer", None)


def test_the_newest_attempt_of_a_pod_counts_and_says_how_often_it_was_tried() -> None:
    pods = [pod("node", "Running", attempt=2, restartCount=1), pod("node", "Failed", attempt=1, exitCode=1)]
    view = to_view(steps_of(job_set(job("node")), pods)[0], NOW, None)
    assert (view.state, view.restarts) == ("Running", 3)


def test_seconds_count_from_the_first_container_to_the_end() -> None:
    ended = pod("node", "Succeeded", exitCode=0) | {"finishedAt": "2026-11-21T10:00:30.250Z"}
    assert steps_of(job_set(job("node")), [ended])[0].seconds(NOW) == 30
    assert steps_of(job_set(job("node")), [pod("node", "Running")])[0].seconds(NOW) == 59.75


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (
            TerminationMessage(
                code=66, reason="SourceNotFound", message="file:///x: no such folder", retryable=False
            ).to_json(),
            66,
            "exit code 66 (the source, or a file in it, does not exist): SourceNotFound: file:///x: no such folder",
        ),
        ("", 3, "exit code 3 (an exit code of the program's own)"),
        ("", 137, "exit code 137 (killed (SIGKILL): out of memory, or ended by hand)"),
        ("own words\nof a program", 1, "exit code 1 (an exit code of the program's own): own words of a program"),
    ],
    ids=["ours", "plain", "killed", "foreign message"],
)
def test_a_failure_shows_code_meaning_and_reason(message: str, code: int, text: str) -> None:
    failed = pod("node", "Failed", exitCode=code, reason="Error", message=message)
    step = steps_of(job_set(job("node")), [failed])[0]
    failure = step.failure()
    assert failure is not None
    assert (failure.container, failure.exit_code, failure.pod) == ("node", code, "j-node-0-0")
    assert failure.to_text() == text


def test_a_pod_that_failed_without_a_container_says_why() -> None:
    failed = pod("node", "Failed") | {"reason": "DeadlineExceeded", "message": "active longer than 5 s"}
    failure = steps_of(job_set(job("node")), [failed])[0].failure()
    assert failure is not None
    assert failure.to_text() == "DeadlineExceeded: active longer than 5 s"


def test_progress_becomes_percent_time_left_and_metrics() -> None:
    progress = {"progressPercentage": 40, "estimatedRemainingSeconds": 9, "metrics": [{"name": "loss", "value": "1.5"}]}
    view = to_view(steps_of(job_set(job("node")), [pod("node", "Running")])[0], NOW, progress)
    assert (view.percent, view.remaining_seconds, view.metrics) == (40, 9, {"loss": "1.5"})
