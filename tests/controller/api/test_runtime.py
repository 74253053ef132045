"""A runtime is read with its policy, its template is checked strictly and stays plain data."""

from collections.abc import Callable

from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime
from trainyard.controller.api.runtime import TrainingRuntime

HEAD = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r.1}\nspec:\n"
POD = "template: {spec: {template: {spec: {containers: [{name: node}]%s}}%s}}"
JOBS = "spec.template.spec.replicatedJobs"

Load = Callable[[str], TrainingRuntime]


def template(jobs: str, rest: str = "") -> str:
    return f"{HEAD}  template:\n    spec:\n      replicatedJobs: [{jobs}]\n      {rest}\n"


def pod(fields: str) -> str:
    return template(f"{{name: node, template: {{spec: {{template: {{spec: {{{fields}}}}}}}}}}}")


def test_a_runtime_of_either_kind_is_read(load: Load) -> None:
    runtime = load(f"{HEAD}  mlPolicy:\n    numNodes: 2\n    torch: {{}}\n  podGroupPolicy: {{coscheduling: {{}}}}\n")
    assert (runtime.name, runtime.namespace, runtime.is_cluster_scoped) == ("r.1", "", True)
    policy, group = runtime.spec.ml_policy, runtime.spec.pod_group_policy
    assert policy is not None
    assert (policy.num_nodes, policy.torch is not None, policy.mpi) == (2, True, None)
    assert group is not None
    assert group.coscheduling is not None
    assert group.coscheduling.schedule_timeout_seconds == 60
    assert runtime.replicated_jobs == []
    namespaced = load(f"{HEAD.replace('Cluster', '').replace('r.1', 'r, namespace: team')}  mlPolicy: {{}}\n")
    assert (namespaced.kind, namespaced.namespace) == ("TrainingRuntime", "team")


def test_the_template_is_the_very_data_that_was_read() -> None:
    (document,) = read_text(template(f"{{name: node, {POD % ('', '')}}}")).all
    runtime = load_runtime(document)
    assert runtime.spec.template.spec is document.data["spec"]["template"]["spec"]
    assert runtime.raw is not None
    assert [job["name"] for job in runtime.replicated_jobs] == ["node"]


def test_mpi_has_its_defaults(load: Load) -> None:
    policy = load(f"{HEAD}  mlPolicy: {{mpi: {{}}}}\n").spec.ml_policy
    assert policy is not None
    assert policy.mpi is not None
    assert policy.mpi.num_proc_per_node == 1
    assert policy.mpi.mpi_implementation == "OpenMPI"
    assert policy.mpi.ssh_auth_mount_path == "/root/.ssh"
    assert not policy.mpi.run_launcher_as_node


def test_what_only_a_cluster_reads_stays_open(load: Load) -> None:
    load(
        pod(
            "containers: [{name: a, readinessProbe: {tcpSocket: {port: 2222}}, ports: [{containerPort: 1}, "
            "{containerPort: 1, protocol: UDP}]}], affinity: {anything: [goes, 3]}, tolerations: [{operator: Exists}], "
            "volumes: [{name: v, nfs: {server: s, path: /p}}, {name: w, projected: {sources: [{serviceAccountToken: "
            "{path: token}}]}}, {name: x}], topologySpreadConstraints: [{maxSkew: 1}], dnsConfig: {nameservers: [a.b]}"
        )
    )
