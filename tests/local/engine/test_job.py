"""A Job fills its indexes, replaces failed pods, and ends as Kubernetes' Jobs do."""

import pytest


def fail_rule(*values, action="FailJob", operator="In", **more):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def test_every_index_runs_with_its_own_number(make_job, write):
    job = make_job(write.replicated("w", "echo $INDEX >> order", job={"parallelism": 3, "completions": 3}))
    assert job.run()["phase"] == "Complete"
    assert sorted(job.lines()) == ["0", "1", "2"]


def test_parallelism_bounds_the_pods_at_once(make_job, write):
    script = "mkdir alone || exit 9; sleep 0.02; rmdir alone"
    job = make_job(write.replicated("w", script, job={"parallelism": 1, "completions": 3}))
    assert job.run()["phase"] == "Complete"


def test_non_indexed_pods_count_successes_only(make_job, write):
    spec = {"parallelism": 2, "completions": 2, "completionMode": "NonIndexed", "backoffLimit": 1}
    job = make_job(write.replicated("w", "echo $INDEX >> order; mkdir first && exit 1; exit 0", job=spec))
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["None", "None", "None"]


def test_a_work_queue_is_done_when_one_succeeded_and_all_have_ended(make_job, write):
    spec = {"parallelism": 2, "completionMode": "NonIndexed"}
    job = make_job(write.replicated("w", "mkdir a && exit 0; sleep 0.05; echo last >> order", job=spec))
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["last"]


def test_failed_pods_are_replaced_up_to_the_backoff_limit(make_job, write):
    job = make_job(write.replicated("w", "echo $ATTEMPT >> order; exit 7", job={"backoffLimit": 2}))
    status = job.run()
    assert job.lines() == ["0", "1", "2"]
    assert status["message"].startswith("pod j-w-0-0, container c: exit code 7")
    assert "BackoffLimitExceeded" in job.reasons()
    assert job.log("j-w-0-0", previous=True) == ""


def test_a_permanent_code_fails_the_job_at_once(make_job, write):
    policy = {"rules": [fail_rule(64, 66, containerName="c")]}
    job = make_job(
        write.replicated("w", "echo x >> order; exit 66", job={"backoffLimit": 5, "podFailurePolicy": policy})
    )
    status = job.run()
    assert job.lines() == ["x"]
    [event] = [event for event in job.watcher.events if event["reason"] == "PodFailurePolicy"]
    assert event["message"] == (
        "Container c for pod default/j-w-0-0 failed with exit code 66 matching FailJob rule at index 0"
    )
    assert status["message"].startswith(
        "pod j-w-0-0, container c: exit code 66 (the source, or a file in it, does not exist)"
    )


@pytest.mark.parametrize(
    ("rules", "attempts"),
    [
        ([fail_rule(5, action="Ignore")], 4),
        ([fail_rule(6, action="Ignore")], 2),
        ([fail_rule(6, action="Ignore", operator="NotIn")], 4),
        ([fail_rule(5, action="Count"), fail_rule(5)], 2),
        ([fail_rule(5, containerName="c")], 1),
    ],
    ids=["ignored", "other-code", "not-in", "first-rule-wins", "fail-job"],
)
def test_pod_failure_policy(make_job, write, rules, attempts):
    # Ignored failures would go on for ever; the fourth attempt succeeds.
    job = make_job(
        write.replicated(
            "w",
            "echo $ATTEMPT >> order; [ $ATTEMPT = 3 ] || exit 5",
            job={"backoffLimit": 1, "podFailurePolicy": {"rules": rules}},
        )
    )
    status = job.run()
    assert len(job.lines()) == attempts
    assert status["phase"] == ("Complete" if attempts == 4 else "Failed")


def test_a_failing_job_ends_its_other_pods_first(make_job, write):
    script = "if [ $INDEX = 0 ]; then " + write.wait_for("up", "exit 66") + "; fi; touch up; exec sleep 60"
    policy = {"rules": [fail_rule(66)]}
    job = make_job(write.replicated("w", script, job={"parallelism": 2, "completions": 2, "podFailurePolicy": policy}))
    status = job.run()
    assert status["phase"] == "Failed" and status["message"].startswith("pod j-w-0-0, container c: exit code 66")
    assert job.container("j-w-0-1")["exitCode"] == 143


def test_a_deadline_of_the_job_fails_it(make_job, write):
    job = make_job(write.replicated("w", "exec sleep 60", job={"activeDeadlineSeconds": 1}))
    status = job.run()
    assert status["conditions"][0]["reason"] == "FailedJobs"
    assert status["message"] == "j-w-0: DeadlineExceeded: Job was active longer than specified deadline"


def test_each_index_has_its_own_limit(make_job, write):
    spec = {"parallelism": 3, "completions": 3, "backoffLimitPerIndex": 1}
    job = make_job(write.replicated("w", "echo $INDEX >> order; [ $INDEX != 1 ]", job={"backoffLimit": None, **spec}))
    status = job.run()
    assert sorted(job.lines()) == ["0", "1", "1", "2"]
    assert status["phase"] == "Failed" and "FailedIndexes" in job.reasons()


def test_too_many_failed_indexes_end_the_job(make_job, write):
    spec = {"parallelism": 1, "completions": 9, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": None}
    job = make_job(write.replicated("w", "echo $INDEX >> order; exit 1", job=spec))
    assert job.run()["phase"] == "Failed"
    assert job.lines() == ["0", "1"] and "MaxFailedIndexesExceeded" in job.reasons()


def test_fail_index_gives_up_one_index_only(make_job, write):
    spec = {
        "parallelism": 2,
        "completions": 2,
        "backoffLimit": None,
        "backoffLimitPerIndex": 5,
        "podFailurePolicy": {"rules": [fail_rule(3, action="FailIndex")]},
    }
    job = make_job(write.replicated("w", "echo $INDEX >> order; [ $INDEX = 0 ] || exit 3", job=spec))
    assert job.run()["phase"] == "Failed"
    assert sorted(job.lines()) == ["0", "1"]


def test_a_success_policy_needs_its_indexes_only(make_job, write):
    spec = {
        "parallelism": 2,
        "completions": 2,
        "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
    }
    job = make_job(write.replicated("w", "[ $INDEX = 0 ] || exec sleep 60", job=spec))
    assert job.run()["phase"] == "Complete"


def test_container_restarts_count_against_the_backoff_limit(make_job, write):
    job = make_job(
        write.replicated("w", "echo x >> order; exit 1", pod={"restartPolicy": "OnFailure"}, job={"backoffLimit": 3})
    )
    status = job.run()
    assert status["phase"] == "Failed" and "BackoffLimitExceeded" in job.reasons()
    assert len(job.lines()) == 3  # As Kubernetes: the restart that reaches the limit ends the Job.
