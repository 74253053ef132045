"""The shipped runtimes, and how a TrainJob's runtime is found."""

from importlib import resources
from typing import Any

import pytest

from trainyard.contract import exit_codes, labels, names
from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.lint import lint_runtime
from trainyard.controller.runtimes import find_runtime, shipped_runtimes

SHIPPED = tuple(shipped_runtimes())
TORCHTUNE = tuple(name for name in SHIPPED if name.startswith("torchtune"))


def containers(runtime: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for job in runtime.replicated_jobs:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        found[job["name"]] = container
    return found


def test_these_are_shipped() -> None:
    assert SHIPPED == (
        "torch-distributed",
        "torchtune-distributed",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
    )
    assert len(shipped_runtimes()) == 5 and "torch" not in shipped_runtimes()


@pytest.mark.parametrize("name", SHIPPED)
def test_each_is_valid_and_called_as_its_file(name: str) -> None:
    text = resources.files("trainyard.runtimes").joinpath(f"{name}.yaml").read_text()
    (document,) = read_text(text).runtimes
    runtime = load_runtime(document)
    assert (runtime.name, runtime.kind) == (name, names.CLUSTER_TRAINING_RUNTIME)
    assert shipped_runtimes()[name] == runtime
    findings = lint_runtime(runtime)
    assert findings.errors == () and findings.warnings == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_each_has_what_the_sdk_needs(name: str) -> None:
    runtime = shipped_runtimes()[name]
    assert runtime.metadata.labels[labels.FRAMEWORK] == ("torchtune" if name in TORCHTUNE else "torch")
    assert runtime.spec.ml_policy is not None and runtime.spec.ml_policy.torch is not None
    job = runtime.replicated_jobs[-1]
    assert job["name"] == "node" and job["template"]["metadata"]["labels"][labels.ANCESTOR_STEP] == "trainer"
    node = containers(runtime)["node"]
    assert node["name"] == "node" and node["image"]
    assert node.get("resources", {}).get("limits") in (None, {"nvidia.com/gpu": "2"})
    assert "resources" not in node or name not in ("torch-distributed", "torchtune-distributed")


@pytest.mark.parametrize("name", SHIPPED)
def test_each_fails_at_once_on_permanent_exit_codes_and_ignores_disruptions(name: str) -> None:
    runtime = shipped_runtimes()[name]
    for job in runtime.replicated_jobs:
        spec = job["template"]["spec"]
        assert spec["podFailurePolicy"] == {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(exit_codes.PERMANENT)}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        }
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert spec["backoffLimit"] == (0 if job["name"] == "node" else 3)
    policy = runtime.spec.template.spec["failurePolicy"]
    (rule,) = policy["rules"]
    assert policy["maxRestarts"] == 3
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


@pytest.mark.parametrize("name", TORCHTUNE)
def test_torchtune_takes_any_model_and_shares_one_volume(name: str) -> None:
    runtime = shipped_runtimes()[name]
    assert runtime.metadata.annotations[labels.MODEL] == labels.MODEL_AUTO
    mounts = [container["volumeMounts"] for container in containers(runtime).values()]
    assert mounts == [[{"name": "initializer", "mountPath": "/workspace"}]] * 3
    (policy,) = runtime.spec.template.spec["volumeClaimPolicies"]
    (claim,) = policy["templates"]
    assert claim["metadata"]["name"] == "initializer"
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    assert [entry["status"] for entry in runtime.replicated_jobs[-1]["dependsOn"]] == ["Complete", "Complete"]
    command = containers(runtime)["node"]["command"]
    assert command[:2] == ["tune", "run"] and command[3:6] == ["full_finetune_distributed", "--config", "auto"]


@pytest.mark.parametrize(
    ("name", "dataset", "model"),
    [
        ("torchtune-distributed", None, None),
        ("torchtune-llama3.2-1b", "hf://tatsu-lab/alpaca", "hf://meta-llama/Llama-3.2-1B-Instruct"),
        ("torchtune-llama3.2-3b", "hf://tatsu-lab/alpaca", "hf://meta-llama/Llama-3.2-3B-Instruct"),
        ("torchtune-qwen2.5-1.5b", "hf://tatsu-lab/alpaca", "hf://Qwen/Qwen2.5-1.5B-Instruct"),
    ],
)
def test_named_ones_bring_their_sources(name: str, dataset: str | None, model: str | None, env_of: Any) -> None:
    found = containers(shipped_runtimes()[name])
    assert env_of(found["dataset-initializer"]).get("STORAGE_URI") == dataset
    assert env_of(found["model-initializer"]).get("STORAGE_URI") == model


def test_the_streams_runtime_beats_a_given_one_and_that_beats_the_shipped(train_job: Any, runtime: Any) -> None:
    stream, given = (runtime(name="torch-distributed") for _ in range(2))
    job = train_job("torch-distributed")
    assert find_runtime(job, from_stream=[stream], extra=[given]) is stream
    assert find_runtime(job, extra=[runtime(name="other"), given]) is given
    assert find_runtime(job).metadata.labels == {labels.FRAMEWORK: "torch"}


def test_a_namespaced_runtime_is_looked_for_in_the_jobs_namespace(train_job: Any, runtime: Any) -> None:
    def offered(namespace: str) -> Any:
        return runtime(name="mine", kind=names.TRAINING_RUNTIME, metadata={"namespace": namespace})

    job = train_job("mine", reference={"kind": names.TRAINING_RUNTIME}, metadata={"namespace": "b"})
    right = offered("b")
    assert find_runtime(job, from_stream=[offered("a"), right]) is right
    with pytest.raises(InvalidError) as caught:
        find_runtime(job, from_stream=[offered("a")])
    assert str(caught.value) == (
        "spec.runtimeRef.name: no TrainingRuntime 'mine' in namespace 'b'; it must exist before the TrainJob; "
        "known are none"
    )


def test_a_runtime_of_the_other_kind_is_pointed_at(train_job: Any, runtime: Any) -> None:
    with pytest.raises(InvalidError, match="there is a ClusterTrainingRuntime of this name, which spec"):
        find_runtime(train_job("torch-distributed", reference={"kind": names.TRAINING_RUNTIME}))
    namespaced = runtime(name="mine", kind=names.TRAINING_RUNTIME)
    with pytest.raises(InvalidError, match="there is a TrainingRuntime of this name, which spec"):
        find_runtime(train_job("mine"), from_stream=[namespaced])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("torch-distribute", "did you mean 'torch-distributed' or 'torchtune-distributed'?"),
        (
            "zzz",
            (
                "known are torch-distributed, torchtune-distributed, torchtune-llama3.2-1b, torchtune-llama3.2-3b, "
                "torchtune-qwen2.5-1.5b"
            ),
        ),
    ],
)
def test_a_missing_runtime_suggests_others(train_job: Any, name: str, hint: str) -> None:
    with pytest.raises(InvalidError) as caught:
        find_runtime(train_job(name))
    assert str(caught.value) == (
        f"spec.runtimeRef.name: no ClusterTrainingRuntime {name!r}; it must exist before the TrainJob; {hint}"
    )


def test_an_unsupported_kind_is_refused_before_any_search(train_job: Any) -> None:
    with pytest.raises(InvalidError, match="unsupported runtime: X"):
        find_runtime(train_job(reference={"kind": "X"}))
