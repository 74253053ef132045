"""The documentation keeps its word: links lead somewhere, commands exist, Python and sh blocks run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])
BIN = Path(sys.executable).parent
# Verbs that end quickly and need no job; the others are run by the tests that train (tests/examples).
QUICK = {"render", "lint", "runtimes", "verify", "list", "--help", "--version"}
NEED_A_JOB = {"run", "describe", "logs", "wait", "stop", "suspend", "resume", "delete"}


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for found in re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            yield page, found[1]


def commands() -> list[tuple[str, str]]:
    """Give (page, line) for each line of each sh block; a line that ends with a backslash goes on."""
    return [
        (page.relative_to(ROOT).as_posix(), line)
        for page, text in blocks("sh")
        for line in re.sub(r"\\\n\s*", " ", text).splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def trainyard_verbs(line: str) -> list[str]:
    return re.findall(r"(?:^|[|&;]\s*)trainyard\s+(\S+)", line)


def quick_blocks() -> list[tuple[str, str]]:
    """Give (page, text) for each sh block of which every line is a quick command of ours."""
    own = re.compile(r"^([A-Z_]+=\S+\s+)*trainyard")
    return [
        (page.relative_to(ROOT).as_posix(), text)
        for page, text in blocks("sh")
        for lines in [[line for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.strip()]]
        if all(own.match(line) and set(trainyard_verbs(line)) <= QUICK and "kubectl" not in line for line in lines)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    missing = [t for t in targets if not t.startswith(("https://", "http://")) and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_exist(page: str, line: str) -> None:
    for verb in trainyard_verbs(line):
        assert verb in QUICK | NEED_A_JOB
    for target in re.findall(r"(?:^|[|&;]\s*)make\s+(?:[A-Z_]+=\S+\s+)*([a-z-]+)", line):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"make {target}"
    for script in re.findall(r"\bpython3?\s+(\S+\.py)", line):
        assert (ROOT / script).exists()


@pytest.mark.parametrize(("page", "text"), quick_blocks())
def test_quick_blocks_run(page: str, text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text.replace("/tmp/", f"{tmp_path}/")],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_plugin_of_the_page_plans_a_job() -> None:
    from trainyard.controller.api.load import load_runtime, load_train_job
    from trainyard.controller.plan import plan
    from trainyard.controller.plugins import BUILT_IN

    (text,) = [text for page, text in blocks("python") if page.name == "plugins.md"]
    # The module must exist while its dataclass is made.
    scope: dict[str, object] = {"__name__": __name__}
    exec(compile(text, "plugins.md", "exec"), scope)
    jax = scope["Jax"]
    assert isinstance(jax, type)
    runtime = load_runtime(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "jax"},
            "spec": {
                "mlPolicy": {"numNodes": 2, "jax": {}},
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {
                                "name": "node",
                                "template": {
                                    "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                    "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                                },
                            }
                        ]
                    }
                },
            },
        }
    )
    job = load_train_job(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "j"},
            "spec": {"runtimeRef": {"name": "jax"}},
        }
    )
    planned = plan(job, runtime, plugins=(*BUILT_IN[:-1], jax(), BUILT_IN[-1]))
    (node,) = planned.job_set["spec"]["replicatedJobs"]
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "JAX_COORDINATOR_ADDRESS", "value": "j-node-0-0.j:29500"} in container["env"]


def test_every_documented_setting_of_the_trainer_exists() -> None:
    from trainyard.trainers.torchtune import keys

    page = (ROOT / "docs" / "trainer.md").read_text()
    table = page[page.index("## Settings") : page.index("## Data")]
    settings = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z_.]+)`", row.split("|")[1])
    }
    assert len(settings) > 20
    known = set(keys.FIELDS) | {"model.lora_attn_modules", "model.apply_lora_to_mlp", "model.apply_lora_to_output"}
    assert settings <= known
