"""A JobSet's Jobs start in order, end together, and are restarted as its policies say."""

import json

import pytest


def test_a_job_of_one_pod_runs_to_complete(make_job, write):
    job = make_job(write.replicated("node", "echo hello", ancestor="trainer"))
    status = job.run()
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in status["conditions"]] == [
        ("Complete", "True", "AllJobsCompleted", "jobset completed successfully")
    ]
    assert status["jobsStatus"] == [
        {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    ]
    assert status["phase"] == "Complete" and status["startTime"] <= status["completionTime"]
    assert job.log("j-node-0-0") == "hello\n"
    written = json.loads((job.path / "status.json").read_text())
    assert written["status"] == status and written["metadata"]["name"] == "j"
    [pod] = json.loads((job.path / "pods.json").read_text())
    assert (pod["name"], pod["phase"], pod["containers"][0]["exitCode"]) == ("j-node-0-0", "Succeeded", 0)


def test_a_failed_job_names_the_pod_the_code_and_the_last_line(make_job, write):
    job = make_job(write.replicated("node", "echo no luck; exit 3"))
    status = job.run()
    [condition] = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "FailedJobs")
    assert condition["message"] == "jobset failed due to one or more job failures (first failed job: j-node-0)"
    assert status["message"] == (
        "pod j-node-0-0, container c: exit code 3 (an exit code of the program's own): no luck"
    )


@pytest.mark.parametrize("status", ["Complete", "Ready"])
def test_depends_on_holds_a_job_back(make_job, write, status):
    first = "echo first >> order; " + (write.wait_for("second-ran") if status == "Ready" else "")
    job = make_job(
        write.replicated("first", first),
        write.replicated(
            "second", "echo second >> order; touch second-ran", dependsOn=[{"name": "first", "status": status}]
        ),
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["first", "second"]
