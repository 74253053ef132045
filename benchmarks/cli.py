"""The command line: start-up, memory, planning, and what `trainyard run` adds to the same commands started by hand.

    python benchmarks/cli.py [--rounds 5]

Every figure is a median over fresh processes; rounds of all rows are interleaved, so that a busy moment hits all alike.
Memory is the peak resident size of the command's own process, without its children (VmHWM). "By hand" starts the two
initializers and then the node's command with `&` and `wait`, as a shell script would, in folders made for them.
Exits 1 when a median is above its limit.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

BIN = Path(sys.executable).parent
NODE_SECONDS = 1.0
JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "bench"},
    "spec": {
        "runtimeRef": {"name": "torchtune-distributed"},
        "trainer": {"command": ["sh", "-c"], "args": [f"ls /workspace/dataset /workspace/model; sleep {NODE_SECONDS}"]},
    },
}


@dataclass(kw_only=True, slots=True)
class Row:
    """One measured command."""

    name: str
    measure: Callable[[], float]
    unit: str
    limit: float
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Give the figure that counts."""
        return statistics.median(self.values)


def prepare(folder: Path) -> dict[str, str]:
    """Write the job and its sources; gives the environment of all commands."""
    for name in ("data", "base"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}")
        (folder / name / "model.safetensors").write_bytes(os.urandom(1 << 20))
    sources = {"dataset": "data", "model": "base"}
    spec = {
        **JOB["spec"],
        "initializer": {kind: {"storageUri": (folder / source).as_uri()} for kind, source in sources.items()},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "spec": spec}))
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PATH": f"{BIN}:{os.environ['PATH']}"}


def wall_seconds(command: list[str], environ: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def peak_mib(command: list[str], environ: Mapping[str, str]) -> float:
    """Follow the peak of a process' own resident memory until it ends."""
    peak = 0
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            for line in status.splitlines():
                if line.startswith("VmHWM"):
                    peak = max(peak, int(line.split()[1]))
            time.sleep(0.002)
    return peak / 1024


def by_hand(folder: Path, environ: Mapping[str, str]) -> float:
    """Stage and run as a person would in a shell."""
    work = folder / "by-hand"
    shutil.rmtree(work, ignore_errors=True)
    (work / "output").mkdir(parents=True)
    script = (
        f"STORAGE_URI={folder.as_uri()}/data OUTPUT_PATH={work}/dataset trainyard-dataset-initializer & "
        f"STORAGE_URI={folder.as_uri()}/base OUTPUT_PATH={work}/model trainyard-model-initializer & "
        f"wait; ls {work}/dataset {work}/model; sleep {NODE_SECONDS}"
    )
    began = time.perf_counter()
    subprocess.run(["sh", "-c", script], env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def plan_cpu_ms() -> float:
    """Plan a Torch job of 1000 nodes in this process, which has done it before."""
    from trainyard.controller.api.load import load_train_job
    from trainyard.controller.plan import plan
    from trainyard.controller.runtimes import shipped_runtimes

    raw = {
        **JOB,
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 1000, "numProcPerNode": 8, "env": [{"name": "A", "value": "b"}]},
        },
    }
    train_job, runtime = load_train_job(raw), shipped_runtimes()["torch-distributed"]
    plan(train_job, runtime)
    began = time.process_time()
    plan(train_job, runtime)
    return (time.process_time() - began) * 1000


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    trainyard = str(BIN / "trainyard")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        environ = prepare(folder)
        job = str(folder / "job.yaml")
        run = [trainyard, "run", job, "--replace"]
        added: list[float] = []

        def overhead() -> float:
            mine, theirs = wall_seconds(run, environ), by_hand(folder, environ)
            added.append(theirs)
            return mine - theirs

        def wall(*arguments: str) -> Callable[[], float]:
            return lambda: wall_seconds([trainyard, *arguments], environ) * 1000

        def peak(*arguments: str) -> Callable[[], float]:
            return lambda: peak_mib([trainyard, *arguments], environ)

        rows = [
            Row(name="trainyard --help", measure=wall("--help"), unit="ms", limit=200),
            Row(name="trainyard render, one job", measure=wall("render", job), unit="ms", limit=400),
            Row(name="plan() of 1000 nodes, CPU", measure=plan_cpu_ms, unit="ms", limit=20),
            Row(name="run, more than by hand", measure=overhead, unit="s", limit=2),
            *(
                Row(name=f"memory of {arguments[0]}", measure=peak(*arguments), unit="MiB", limit=80)
                for arguments in (
                    ("--help",),
                    ("render", job),
                    ("lint", job),
                    ("run", job, "--replace"),
                    ("list",),
                    ("describe", "bench"),
                    ("logs", "bench"),
                )
            ),
        ]
        for _ in range(rounds):
            for row in rows:
                row.values.append(row.measure())
    for row in rows:
        spread = f"{min(row.values):.2f} to {max(row.values):.2f}"
        verdict = "" if row.median < row.limit else "   ABOVE THE LIMIT"
        print(f"{row.name:<28} {row.median:8.2f} {row.unit:<4} ({spread}), limit {row.limit:g}{verdict}")
    print(f"by hand the job took {statistics.median(added):.2f} s, of which {NODE_SECONDS:g} s is its own sleep")
    return 0 if all(row.median < row.limit for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
