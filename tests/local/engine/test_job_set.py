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


def test_complete_holds_a_job_back_until_the_other_has_succeeded(make_job, write):
    job = make_job(
        write.replicated("first", "sleep 0.05; echo first >> order"),
        write.replicated("second", "echo second >> order", dependsOn=[{"name": "first", "status": "Complete"}]),
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["first", "second"]


def test_ready_holds_a_job_back_until_the_other_runs(make_job, write):
    job = make_job(
        write.replicated("first", write.wait_for("second-ran")),
        write.replicated("second", "touch second-ran", dependsOn=[{"name": "first", "status": "Ready"}]),
    )
    assert job.run()["phase"] == "Complete"
    started = [event["object"] for event in job.watcher.events if event["reason"] == "Started"]
    assert started == ["Pod/j-first-0-0", "Pod/j-second-0-0"]


def test_a_failed_dependency_never_starts_what_depends_on_it(make_job, write):
    job = make_job(
        write.replicated("first", "exit 1"),
        write.replicated("second", "echo second >> order", dependsOn=[{"name": "first", "status": "Complete"}]),
    )
    assert job.run()["phase"] == "Failed"
    assert job.lines() == [] and "j-second-0-0" not in job.pods


def test_ready_counts_failed_and_succeeded_jobs_of_the_dependency(make_job, write):
    # parallelism and completions 0: the Job has no pods, is complete at once, and so never holds anybody up.
    job = make_job(
        write.replicated("empty", "true", job={"parallelism": 0, "completions": 0}),
        write.replicated("second", "true", dependsOn=[{"name": "empty", "status": "Ready"}]),
    )
    status = job.run()
    assert status["phase"] == "Complete"
    assert [one["succeeded"] for one in status["jobsStatus"]] == [1, 1]


def test_ready_waits_for_the_readiness_probe(make_job, write):
    server = "touch up; echo up >> order; " + write.wait_for("second-ran")
    probe = {"exec": {"command": ["test", "-e", "up"]}}
    job = make_job(
        write.replicated("server", write.shell("sleep 0.1; " + server, readinessProbe=probe)),
        write.replicated(
            "client", "echo client >> order; touch second-ran", dependsOn=[{"name": "server", "status": "Ready"}]
        ),
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["up", "client"]


def test_in_order_starts_each_replicated_job_when_the_one_before_is_ready(make_job, write):
    job = make_job(
        write.replicated("a", "echo a >> order; " + write.wait_for("done")),
        write.replicated("b", "echo b >> order; " + write.wait_for("done")),
        write.replicated("c", "echo c >> order; touch done"),
        startupPolicy={"startupPolicyOrder": "InOrder"},
    )
    assert job.run()["phase"] == "Complete"
    assert job.reasons().count("InOrderStartupPolicyCompleted") == 1
    assert [pod for pod, _ in job.machine.started] == ["j-a-0-0", "j-b-0-0", "j-c-0-0"]


def test_replicas_run_side_by_side(make_job, write):
    meet = "touch here-$POD; while [ ! -e here-j-w-0-0 ] || [ ! -e here-j-w-1-0 ]; do sleep 0.01; done"
    job = make_job(write.replicated("w", meet, replicas=2))
    status = job.run()
    assert status["jobsStatus"][0]["succeeded"] == 2, (status, job.pods)


def test_success_of_any_target_completes_the_set_and_ends_the_others(make_job, write):
    job = make_job(
        write.replicated("leader", "true"),
        write.replicated("worker", "exec sleep 60"),
        successPolicy={"operator": "Any", "targetReplicatedJobs": ["leader"]},
    )
    assert job.run()["phase"] == "Complete"
    assert job.container("j-worker-0-0")["exitCode"] == 143


def test_success_of_all_targets_does_not_wait_for_the_rest(make_job, write):
    job = make_job(
        write.replicated("leader", "true", replicas=2),
        write.replicated("worker", "exec sleep 60"),
        successPolicy={"operator": "All", "targetReplicatedJobs": ["leader"]},
    )
    assert job.run()["phase"] == "Complete"


def test_restarts_run_every_job_anew_up_to_the_limit(make_job, write):
    job = make_job(
        write.replicated("first", "echo first >> order"),
        write.replicated("second", "echo second >> order; exit 1", dependsOn=[{"name": "first", "status": "Complete"}]),
        failurePolicy={"maxRestarts": 2},
    )
    status = job.run()
    assert job.lines() == ["first", "second"] * 3
    [condition] = status["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "ReachedMaxRestarts",
        "jobset failed due to reaching max number of restarts (first failed job: j-second-0)",
    )
    assert status["message"].endswith("(after 2 restarts)")
    assert job.reasons().count("RestartJobSetFailurePolicyAction") == 2
    assert job.pods["j-second-0-0"]["attempt"] == 2


def test_a_restart_can_succeed(make_job, write):
    job = make_job(write.replicated("w", "[ $ATTEMPT = 1 ]"), failurePolicy={"maxRestarts": 3})
    status = job.run()
    assert status["phase"] == "Complete" and job.pods["j-w-0-0"]["attempt"] == 1


@pytest.mark.parametrize("strategy", ["Recreate", "BlockingRecreate"])
def test_a_restart_ends_the_other_jobs_before_it_makes_them_anew(make_job, write, strategy):
    stays = (
        "echo begin >> order; trap 'sleep 0.1; echo end >> order; exit 0' TERM; touch up; "
        "[ $ATTEMPT = 1 ] || while :; do sleep 0.01; done"
    )
    job = make_job(
        write.replicated("stays", stays),
        write.replicated("fails", write.wait_for("up", "[ $ATTEMPT = 1 ]")),
        failurePolicy={"maxRestarts": 1, "restartStrategy": strategy},
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["begin", "end", "begin"]
    order = [pod for pod, _ in job.machine.started]
    if strategy == "BlockingRecreate":
        assert order.index("j-stays-0-0", 1) < order.index("j-fails-0-0", 2) or order[2:] == order[:2]


@pytest.mark.parametrize(
    ("rule", "phase", "reason"),
    [
        ({"action": "FailJobSet"}, "Failed", "FailJobSetFailurePolicyAction"),
        ({"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}, "Complete", "AllJobsCompleted"),
        ({"action": "FailJobSet", "targetReplicatedJobs": ["other"]}, "Complete", "AllJobsCompleted"),
        ({"action": "FailJobSet", "onJobFailureMessagePatterns": ["backoff limit$"]}, "Failed", None),
        ({"action": "RestartJobSetAndIgnoreMaxRestarts"}, "Complete", "AllJobsCompleted"),
        ({"action": "RestartJob"}, "Complete", "AllJobsCompleted"),
        ({"action": "RestartJobAndIgnoreMaxRestarts"}, "Complete", "AllJobsCompleted"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_the_first_matching_rule_decides(make_job, write, rule, phase, reason):
    job = make_job(
        write.replicated("w", "[ $ATTEMPT = 1 ]"),
        write.replicated("other", "true"),
        failurePolicy={"maxRestarts": 1, "rules": [rule]},
    )
    status = job.run()
    assert status["phase"] == phase
    if reason is not None:
        assert status["conditions"][0]["reason"] == reason


def test_restart_job_leaves_the_other_jobs_alone(make_job, write):
    job = make_job(
        write.replicated("w", "[ $ATTEMPT = 1 ] && touch done"),
        write.replicated("other", "echo other >> order; " + write.wait_for("done")),
        failurePolicy={"maxRestarts": 1, "rules": [{"action": "RestartJob"}]},
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["other"] and job.pods["j-other-0-0"]["attempt"] == 0
