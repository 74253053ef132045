"""A JobSet that Kubernetes would refuse is refused before anything starts, with the path of every fault."""

from hashlib import sha1

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.engine.job_set_spec import read_job_set
from trainyard.local.engine.pod_template import all_pods, pod_instance


def job_set(*jobs, name="j", **spec):
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"replicatedJobs": list(jobs), **spec}}


def one(name="a", *, pod=None, job=None, **fields):
    pod_spec = {"containers": [{"name": "c", "command": ["true"]}], **(pod or {})}
    return {"name": name, "template": {"spec": {**(job or {}), "template": {"spec": pod_spec}}}, **fields}


def after(*names, status="Complete"):
    return [{"name": name, "status": status} for name in names]


NEVER = {"restartPolicy": "Never"}
FAIL = {"onExitCodes": {"operator": "In", "values": [1]}, "action": "FailJob"}


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (job_set(one("a", dependsOn=after("a"))), r"replicatedJobs\[0\].dependsOn\[0\].name: .*cycle"),
        (job_set(one("a", dependsOn=after("b")), one("b", dependsOn=after("a"))), "'a' can only depend on jobs listed"),
        (job_set(one(), one("b", dependsOn=after("x"))), "no replicated job 'x'; there are a, b"),
        (job_set(one(), one("b", dependsOn=after("a", status="Done"))), "expected Complete or Ready, got 'Done'"),
        (
            job_set(one(), one("b", dependsOn=after("a")), startupPolicy={"startupPolicyOrder": "InOrder"}),
            "cannot be used with startupPolicy InOrder",
        ),
        (job_set(one(), one()), "'a' is there twice"),
        (job_set(one(replicas=-1)), "replicas: expected an integer of at least 0, got -1"),
        (job_set(one(job={"parallelism": "two"})), "template.spec.parallelism: expected an integer"),
        (job_set(one(pod={"restartPolicy": "Always"})), "expected Never or OnFailure"),
        (job_set(one(pod={"containers": []})), "expected at least one container"),
        (job_set(one(job={"podFailurePolicy": {"rules": [FAIL]}})), "needs restartPolicy Never"),
        (
            job_set(
                one(pod={"restartPolicy": "Never"}, job={"podFailurePolicy": {"rules": [{**FAIL, "action": "X"}]}})
            ),
            r"podFailurePolicy.rules\[0\].action: expected one of FailJob",
        ),
        (job_set(one(), successPolicy={"operator": "Any", "targetReplicatedJobs": ["b"]}), "no replicated job 'b'"),
        (job_set(one(), failurePolicy={"rules": [{"action": "Explode"}]}), r"failurePolicy.rules\[0\].action"),
        (
            job_set(one(), failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["("]}]}),
            "is no regular expression",
        ),
        (job_set(one(), name="j" * 60), "has 66 characters, at most 63 are allowed"),
    ],
)
def test_what_job_set_refuses_is_refused_with_its_path(manifest, problem):
    with pytest.raises(ConfigError, match=problem):
        read_job_set(manifest)


def test_every_problem_is_said_at_once():
    with pytest.raises(ConfigError) as error:
        read_job_set(job_set(one(replicas=-1), one("b", dependsOn=after("x"))))
    assert "replicas" in str(error.value) and "'x'" in str(error.value)


def test_defaults_are_those_of_the_webhooks():
    spec = read_job_set(job_set(one()))
    [job] = spec.replicated_jobs
    assert (job.replicas, job.group, job.job.parallelism, job.job.completions) == (1, "default", 1, 1)
    assert (job.job.indexed, job.job.backoff_limit, job.job.restart_policy) == (True, 6, "OnFailure")
    assert (spec.subdomain, spec.success_operator, spec.in_order, spec.suspended) == ("j", "All", False, False)
    assert spec.failure_policy is None and spec.ttl_seconds is None


def test_pods_carry_the_names_and_labels_of_their_controllers():
    spec = read_job_set(
        job_set(
            one("a", replicas=2, groupName="g"),
            one("b", replicas=2, groupName="g", job={"parallelism": 2, "completions": 2}),
            network={"subdomain": "net"},
            coordinator={"replicatedJob": "a"},
        )
    )
    pod = pod_instance(spec, spec.replicated_jobs[1], 1, 0, restarts=3, attempt=2, job_set_uid="u")
    assert (pod.name, pod.hostname, pod.subdomain, pod.job) == ("j-b-1-0", "j-b-1-0", "net", "j-b-1")
    prefix = "jobset.sigs.k8s.io/"
    assert {key.removeprefix(prefix): value for key, value in pod.labels.items() if key.startswith(prefix)} == {
        "jobset-name": "j",
        "jobset-uid": "u",
        "replicatedjob-name": "b",
        "restart-attempt": "3",
        "replicatedjob-replicas": "2",
        "global-replicas": "4",
        "job-index": "1",
        "job-key": sha1(b"team/j-b-1", usedforsecurity=False).hexdigest(),
        "job-global-index": "3",
        "group-name": "g",
        "group-replicas": "4",
        "job-group-index": "3",
        "coordinator": "j-a-0-0.net",
    }
    assert pod.annotations["batch.kubernetes.io/job-completion-index"] == "0"
    [container] = pod.spec["containers"]
    assert container["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert [one.name for one in all_pods(spec)] == [f"j-a-{i}-0" for i in (0, 1)] + [
        f"j-b-{i}-{k}" for i in (0, 1) for k in (0, 1)
    ]


def test_claims_are_mounted_where_a_container_names_them():
    mount = {"containers": [{"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/workspace"}]}]}
    policies = [{"templates": [{"metadata": {"name": "data"}}], "retentionPolicy": {"whenDeleted": "Delete"}}]
    spec = read_job_set(job_set(one("a", pod=mount), one("b"), volumeClaimPolicies=policies))
    first, second = all_pods(spec)
    assert first.spec["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-j"}}]
    assert "volumes" not in second.spec and spec.claims == (("data", True),)
