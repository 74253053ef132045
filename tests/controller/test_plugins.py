"""Plugins of others: an administrator adds a framework with a package, and no file of ours changes."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract import env, names
from trainyard.controller.api.problem import InvalidError
from trainyard.controller.container import variable
from trainyard.controller.discovery import default_plugins
from trainyard.controller.info import Info
from trainyard.controller.lint import lint
from trainyard.controller.manifest import config_map
from trainyard.controller.plan import plan
from trainyard.controller.plugins import BUILT_IN
from trainyard.controller.reserved import reserved_variables
from trainyard.controller.wiring import wire_trainer


class XGBoost:
    """A framework, all phases of it, as somebody else would write it."""

    policy = "xgboost"

    def validate(self, info: Info, old: Any) -> Iterator[Any]:
        yield from reserved_variables(info, env.RESERVED_XGBOOST, self.policy)

    def enforce_ml_policy(self, info: Info) -> Info:
        info = wire_trainer(info)
        trainer = info.trainer
        assert trainer is not None and trainer.main_container is not None
        node = trainer.main_container.with_env([variable(env.DMLC_TRACKER_URI, info.hostname(trainer))])
        return info.with_pod_set(trainer.with_container(node))

    def enforce_pod_spec(self, info: Info) -> Info:
        for pod_set in info.pod_sets:
            info = info.with_pod_set(replace(pod_set, pod_labels={"by": "me"}, pod_annotations={"by": "me"}))
        return info

    def build(self, info: Info) -> Iterator[dict[str, Any]]:
        trainer = info.trainer
        assert trainer is not None
        yield config_map(info, f"{info.name}-hosts", {"hosts": "\n".join(info.endpoints(trainer))})


class Mpi:
    """A framework whose trainer is a launcher and whose nodes are another job's."""

    policy = "mpi"

    def enforce_ml_policy(self, info: Info) -> Info:
        return wire_trainer(info, nodes=["node"], resources=["node"], environment=["launcher", "node"])


class Gang:
    """A scheduler."""

    pod_group_policy = "volcano"

    def enforce_pod_group(self, info: Info) -> Info:
        return replace(info, annotations={**info.annotations, "gang": str(sum(each.count for each in info.pod_sets))})


PLUGINS = (*BUILT_IN[:-1], XGBoost(), Gang(), BUILT_IN[-1])


def test_a_framework_is_one_class(train_job: Any, runtime: Any, env_of: Any) -> None:
    job = train_job(trainer={"numNodes": 2, "env": [{"name": "A", "value": "1"}]})
    made = plan(job, runtime(policy={"xgboost": {}}), plugins=PLUGINS)
    assert [manifest["metadata"]["name"] for manifest in made.objects] == [
        "demo-runtime-snapshot",
        "demo-hosts",
        "demo",
    ]
    assert made.objects[1]["data"] == {"hosts": "demo-node-0-0.demo\ndemo-node-0-1.demo"}
    (replicated,) = made.job_set["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]
    assert pod["metadata"] == {"labels": {"by": "me"}, "annotations": {"by": "me"}}
    assert env_of(pod["spec"]["containers"][0]) == {"A": "1", "DMLC_TRACKER_URI": "demo-node-0-0.demo"}


def test_the_frameworks_value_beats_the_train_jobs(train_job: Any, runtime: Any, refusals: Any) -> None:
    job = train_job(trainer={"env": [{"name": "DMLC_TRACKER_URI", "value": "mine"}]})
    assert refusals(job, runtime(policy={"xgboost": {}}), plugins=PLUGINS) == [
        (
            "spec.trainer.env[0].name: must not have reserved envs, got 'DMLC_TRACKER_URI'; the xgboost policy sets "
            "DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID, DMLC_NUM_WORKER"
        )
    ]


def test_a_plugin_of_another_policy_stays_out(train_job: Any, runtime: Any, node: Any, env_of: Any) -> None:
    assert env_of(node(train_job(), runtime(), plugins=PLUGINS)) == {}
    assert "DMLC_TRACKER_URI" not in env_of(node(train_job(), runtime(policy={"torch": {}}), plugins=PLUGINS))


def test_nodes_and_resources_may_go_to_a_job_that_is_not_the_trainer(
    train_job: Any, runtime: Any, replicated_job: Any
) -> None:
    workers = replicated_job("node", job={"parallelism": 1, "completions": 1})
    offered = runtime(workers, replicated_job("launcher", names.TRAINER), policy={"mpi": {}, "numNodes": 3})
    job = train_job(
        trainer={"image": "mine", "env": [{"name": "A", "value": "1"}], "resourcesPerNode": {"limits": {"cpu": "2"}}}
    )
    made = plan(job, offered, plugins=(*BUILT_IN, Mpi()))
    worker, launcher = (replicated["template"]["spec"] for replicated in made.job_set["spec"]["replicatedJobs"])
    assert (worker["parallelism"], worker["completions"]) == (3, 3)
    assert (launcher["parallelism"], launcher["completions"]) == (1, 1)
    env = [{"name": "A", "value": "1"}]
    assert worker["template"]["spec"]["containers"] == [
        {"name": "node", "image": "i", "env": env, "resources": {"limits": {"cpu": "2"}}}
    ]
    assert launcher["template"]["spec"]["containers"] == [{"name": "node", "image": "mine", "env": env}]


def test_a_scheduler_is_asked_for_its_policy_only(train_job: Any, runtime: Any) -> None:
    asked = lint(train_job(), runtime(podGroupPolicy={"volcano": {}}), plugins=PLUGINS)
    assert asked.warnings == ()
    made = plan(train_job(), runtime(podGroupPolicy={"volcano": {}}), plugins=PLUGINS)
    assert made.job_set["metadata"]["annotations"] == {"gang": "1"}
    other = plan(train_job(), runtime(podGroupPolicy={"coscheduling": {}}), plugins=PLUGINS)
    assert "annotations" not in other.job_set["metadata"] and len(other.warnings) == 1


def test_without_a_plugin_for_plain_runtimes_they_are_refused(train_job: Any, runtime: Any) -> None:
    with pytest.raises(InvalidError, match=r"^spec\.mlPolicy: runtime 'custom': the policy ''"):
        plan(train_job(), runtime(), plugins=(XGBoost(),))


def test_nothing_is_found_where_nothing_is_installed() -> None:
    assert default_plugins() == BUILT_IN and default_plugins() is default_plugins()


def installed(folder: Path, entry: str, module: str) -> subprocess.CompletedProcess[str]:
    """Lay out a distribution as pip does, and ask a new interpreter for its plugins."""
    information = folder / "acme_plugins-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugins\nVersion: 1.2\n")
    (information / "entry_points.txt").write_text(f"[trainyard.plugins]\n{entry}\n")
    (folder / "acme.py").write_text(module)
    code = (
        "from trainyard.controller.discovery import default_plugins\n"
        "from trainyard.contract.errors import ConfigError\n"
        "try:\n    print(*(type(plugin).__name__ for plugin in default_plugins()))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(folder)}
    )


ACME = "class Acme:\n    def enforce_pod_spec(self, info):\n        return info\n\nacme = Acme()\nother = object()\n"


@pytest.mark.parametrize("target", ["acme:Acme", "acme:acme"], ids=["class", "object"])
def test_an_installed_plugin_comes_before_the_job_set(tmp_path: Path, target: str) -> None:
    ours = [type(plugin).__name__ for plugin in BUILT_IN]
    assert installed(tmp_path, f"acme = {target}", ACME).stdout.split() == [*ours[:-1], "Acme", ours[-1]]
    assert ours[-1] == "JobSet"


@pytest.mark.parametrize(
    ("target", "module", "message"),
    [
        ("acme:Acme", "import nowhere", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'; fix or"),
        ("acme:Missing", ACME, "cannot be loaded: AttributeError: module 'acme' has no attribute 'Missing'; fix or"),
        ("acme:Acme", "class Acme:\n    def __init__(self, x): ...\n", "cannot be loaded: TypeError: "),
        ("acme:other", ACME, "expected an object with the method of a phase (Validates, EnforcesMlPolicy, "),
    ],
)
def test_a_broken_plugin_is_named(tmp_path: Path, target: str, module: str, message: str) -> None:
    said = installed(tmp_path, f"acme = {target}", module).stdout
    assert said.startswith(f"plugin 'acme' ({target}) of acme-plugins 1.2: {message}")


def test_no_plugin_of_ours_knows_another() -> None:
    folder = Path(__file__).parents[2] / "controller" / "plugins"
    for file in folder.glob("*.py"):
        if file.name != "__init__.py":
            assert "controller.plugins" not in file.read_text(), file
