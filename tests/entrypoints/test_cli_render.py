"""`trainyard render`, `lint` and `runtimes` as a shell sees them: standard output, standard error, exit code."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from trainyard.controller.runtimes import shipped_runtimes
from trainyard.entrypoints.cli.main import app


def train_job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, **spec},
    }


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return str(path)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def trainyard(*arguments: str, stdin: str = "") -> Done:
    """Run the command in this process: a process of its own costs half a second."""
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(app, arguments, input=stdin)
    return Done(result.exit_code, result.stdout, result.stderr)


def trainyard_process(*arguments: str, **environ: str) -> Done:
    command = [Path(sys.executable).with_name("trainyard"), *arguments]
    environment = {"PATH": "/usr/bin:/bin", **environ}
    done = subprocess.run(command, capture_output=True, timeout=60, env=environment, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_render_prints_the_planned_objects_of_every_job_and_nothing_else(tmp_path: Path) -> None:
    stream = yaml.safe_dump_all(
        [train_job("one"), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}, train_job("two")]
    )
    done = trainyard("render", "-", stdin=stream)
    assert (done.returncode, done.stderr) == (0, "")
    kinds = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(done.stdout)]
    assert kinds == [
        ("ConfigMap", "one-runtime-snapshot"),
        ("JobSet", "one"),
        ("ConfigMap", "two-runtime-snapshot"),
        ("JobSet", "two"),
    ]
    as_json = json.loads(trainyard("render", "-", "-o", "json", stdin=stream).stdout)
    assert as_json["items"] == list(yaml.safe_load_all(done.stdout))


def test_render_prints_equal_bytes_for_equal_input_in_any_locale(tmp_path: Path) -> None:
    job = write(tmp_path / "job.yaml", train_job("one", trainer={"env": [{"name": "GREETING", "value": "grüße"}]}))
    first = trainyard_process("render", job, LC_ALL="C.UTF-8", PYTHONHASHSEED="0")
    assert "grüße" in first.stdout
    assert trainyard_process("render", job, LC_ALL="C", PYTHONHASHSEED="1") == first


def test_render_of_a_refused_job_prints_reasons_with_paths_and_no_object(tmp_path: Path) -> None:
    env = [{"name": "PET_NNODES", "value": "1"}]
    job = write(tmp_path / "job.yaml", train_job("good"), train_job("bad", trainer={"env": env}), train_job("Worse"))
    done = trainyard("render", job)
    assert (done.returncode, done.stdout) == (2, "")
    assert "job.yaml:" in done.stderr
    assert "spec.trainer.env" in done.stderr
    assert "metadata.name" in done.stderr
    assert "Traceback" not in done.stderr


def test_render_takes_runtimes_from_the_stream_then_from_the_option(tmp_path: Path) -> None:
    own = dict(shipped_runtimes()["torch-distributed"].raw)
    own["metadata"] = {"name": "mine", "labels": own["metadata"]["labels"]}
    runtime = write(tmp_path / "runtime.yaml", own)
    job = write(tmp_path / "job.yaml", train_job("one", runtimeRef={"name": "mine"}))
    assert trainyard("render", job, runtime).returncode == 0
    assert trainyard("render", job, "--runtime", runtime).returncode == 0
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "r.yml", own)
    assert trainyard("render", job, "--runtime", str(tmp_path / "folder")).returncode == 0
    missing = trainyard("render", job)
    assert (missing.returncode, missing.stdout) == (2, "")
    nothing = trainyard("render", job, "--runtime", job)
    assert nothing.returncode == 2
    assert "--runtime: no TrainingRuntime" in nothing.stderr


def test_a_broken_runtime_of_the_stream_is_not_called_missing(tmp_path: Path) -> None:
    own = {**shipped_runtimes()["torch-distributed"].raw, "spec": {"mlPolicy": {"torch": {}, "mpi": {}}}}
    done = trainyard("render", write(tmp_path / "all.yaml", own, train_job("one"), train_job("two")))
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(": ")[2] for line in done.stderr.splitlines()] == ["spec.mlPolicy"]


def test_a_namespace_from_outside_holds_for_the_streams_runtimes_too(tmp_path: Path) -> None:
    own = {**shipped_runtimes()["torch-distributed"].raw, "kind": "TrainingRuntime"}
    job = train_job("one", runtimeRef={"name": "torch-distributed", "kind": "TrainingRuntime"})
    done = trainyard("render", write(tmp_path / "all.yaml", own, job), "--namespace", "team")
    assert (done.returncode, done.stderr) == (0, "")
    assert {each["metadata"]["namespace"] for each in yaml.safe_load_all(done.stdout)} == {"team"}


def test_a_job_of_another_manager_gets_no_objects_from_us(tmp_path: Path) -> None:
    other = train_job("other", managedBy="kueue.x-k8s.io/multikueue")
    done = trainyard("render", write(tmp_path / "jobs.yaml", other, train_job("ours")))
    assert done.returncode == 0
    assert "other: spec.managedBy leaves the job to kueue.x-k8s.io/multikueue" in done.stderr
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)] == ["ours-runtime-snapshot", "ours"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [\n", "not valid YAML"),
        ("", "no TrainJob in -"),
        (yaml.safe_dump(train_job("j", runtimeRef={"name": "torch-distribted"})), "did you mean 'torch-distributed'"),
        (yaml.safe_dump(train_job("j", trainer={"numNode": 2})), "spec.trainer.numNode: unknown field"),
        (yaml.safe_dump_all([train_job("j"), train_job("j")]), "a second TrainJob 'j'"),
    ],
    ids=["syntax", "empty", "runtime", "unknown field", "duplicate"],
)
def test_bad_input_is_one_sentence_and_exit_code_2(text: str, sentence: str) -> None:
    done = trainyard("render", "-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_set_changes_every_job_and_says_which_assignment_was_wrong(tmp_path: Path) -> None:
    job = write(tmp_path / "job.yaml", train_job("one"))
    done = trainyard("render", job, "--set", "spec.trainer.numNodes=3", "--set", "metadata.namespace=team")
    job_set = list(yaml.safe_load_all(done.stdout))[-1]
    assert job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 3
    assert job_set["metadata"]["namespace"] == "team"
    wrong = trainyard("render", job, "--set", "spec.trainer.numNodes=two")
    assert wrong.returncode == 2
    assert "--set spec.trainer.numNodes=two: spec.trainer.numNodes: expected an integer" in wrong.stderr


def test_namespace_option_fills_in_and_does_not_overrule(tmp_path: Path) -> None:
    job = write(tmp_path / "job.yaml", train_job("one"))
    assert list(yaml.safe_load_all(trainyard("render", job, "-n", "a").stdout))[-1]["metadata"]["namespace"] == "a"
    conflict = trainyard("render", job, "-n", "a", "--set", "metadata.namespace=b")
    assert conflict.returncode == 2
    assert "metadata.namespace: expected 'a' as --namespace says, got 'b'" in conflict.stderr


def test_lint_reports_places_and_ends_with_2_on_errors_only(tmp_path: Path) -> None:
    job = write(tmp_path / "job.yaml", train_job("one", trainer={"numNodes": "two"}))
    done = trainyard("lint", job)
    assert done.returncode == 2
    assert done.stdout.startswith(f"{job}:9: error: spec.trainer.numNodes: expected an integer")
    finding = json.loads(trainyard("lint", job, "-o", "json").stdout)["findings"][0]
    assert (finding["severity"], finding["place"], finding["path"]) == ("error", f"{job}:9", "spec.trainer.numNodes")
    assert "SEVERITY" in trainyard("lint", job, "-o", "table").stdout
    good = trainyard("lint", write(tmp_path / "good.yaml", train_job("one")))
    assert (good.returncode, good.stdout) == (0, "1 TrainJob and 0 runtimes read: 0 errors, 0 warnings\n")


def test_lint_warns_of_deprecated_runtimes_and_strict_counts_that(tmp_path: Path) -> None:
    own = dict(shipped_runtimes()["torch-distributed"].raw)
    own["metadata"] = {"name": "old", "labels": {"trainer.kubeflow.org/support": "deprecated"}}
    stream = yaml.safe_dump_all([own, train_job("one", runtimeRef={"name": "old"})])
    done = trainyard("lint", "-", stdin=stream)
    assert done.returncode == 0
    assert ": warning: " in done.stdout
    assert trainyard("lint", "-", "--strict", stdin=stream).returncode == 2


def test_runtimes_are_listed_and_printed_for_kubectl() -> None:
    table = trainyard("runtimes").stdout.splitlines()
    assert table[0].split() == ["NAME", "FRAMEWORK", "NODES", "MODEL", "JOBS"]
    assert [line.split()[0] for line in table[1:]] == sorted(shipped_runtimes())
    printed = yaml.safe_load(trainyard("runtimes", "torch-distributed", "-o", "yaml").stdout)
    assert printed == shipped_runtimes()["torch-distributed"].raw
    unknown = trainyard("runtimes", "torch-distribted")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "did you mean 'torch-distributed'" in unknown.stderr
