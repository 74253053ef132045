"""Pods prepared and really started, in both isolations: files, modes, paths, environment."""

import json
import os
import select
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainyard.local.containers.isolation import detect_isolation
from trainyard.local.containers.launch import ContainerEnd, ContainerLaunch, start
from trainyard.local.pods.pod import SUBSTITUTIONS_FILE, check_pods, prepare_pod
from trainyard.local.pods.progress_server import ProgressServer

ISOLATIONS = sorted({detect_isolation().paths, "mapped"})
LIMIT_SECONDS = 30


@pytest.fixture(params=ISOLATIONS)
def paths(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(make_context: Any, paths: str) -> Callable[..., tuple[str, ContainerEnd]]:
    """Prepare a pod, run its container `node`, give its log and its end."""

    def run(pod: Any, **options: Any) -> tuple[str, ContainerEnd]:
        isolation = detect_isolation(paths)
        context = options.pop("context", None) or make_context(pod, isolation=isolation, **options)
        check_pods([pod], context)
        launch = prepare_pod(pod, context).containers[0].launch
        end = wait(launch, isolation)
        return launch.log_file.read_text(), end

    return run


def wait(launch: ContainerLaunch, isolation: Any) -> ContainerEnd:
    process = start(launch, isolation)
    deadline = time.monotonic() + LIMIT_SECONDS
    while (end := process.poll()) is None and time.monotonic() < deadline:
        select.select([process], [], [], 1)
    process.kill()
    process.close()
    assert end is not None
    return end


def script(text: str) -> dict[str, Any]:
    return {"command": ["sh", "-ec", text]}


def volume(name: str, path: str, **mount: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **mount}


def test_the_environment_is_the_pods_and_the_machines_short_list(make_pod: Any, run: Any, paths: str) -> None:
    pod = make_pod(1, command=["env"], env=[{"name": "A", "value": "1"}, {"name": "LANG", "value": "C.UTF-8"}])
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/someone", "LANG": "en", "SECRET": "no", "PYTHONPATH": "no"}
    log, end = run(pod, environ=environ)
    assert end.exit_code == 0
    seen = dict(line.split("=", 1) for line in log.splitlines())
    assert "SECRET" not in seen and "PYTHONPATH" not in seen
    assert (seen["A"], seen["LANG"], seen["HOME"], seen["HOSTNAME"]) == (
        "1",
        "C.UTF-8",
        "/home/someone",
        "job-node-0-1",
    )
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert seen["PATH"].split(":")[0].endswith("/state/default/job/shims")
    names = set(seen) - {"PWD", "SHLVL", "_", "TRAINYARD_CONTAINER_ID"}
    assert names == {
        "A", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME", "HOME", "HOSTNAME", "LANG", "PATH", "PET_MASTER_PORT",
        "PYTHONUNBUFFERED", "TERMINATION_LOG_PATH",
    }  # fmt: skip


def test_workspace_is_writable_without_any_volume(make_pod: Any, run: Any, tmp_path: Path) -> None:
    _, end = run(make_pod(**script("mkdir -p /workspace/output && echo x > /workspace/output/file")))
    assert end.exit_code == 0
    assert (tmp_path / "state/default/job/pods/job-node-0-0/workspace/output/file").read_text() == "x\n"
    assert not Path("/workspace/output/file").exists()


def test_pods_of_a_claim_see_one_folder(make_pod: Any, run: Any, make_context: Any, paths: str, tmp_path: Path) -> None:
    shared = {"volumes": [{"name": "ws", "persistentVolumeClaim": {"claimName": "initializer-job"}}]}
    mounts = [volume("ws", "/workspace")]
    writer = make_pod(0, pod=shared, volumeMounts=mounts, **script("echo from $HOSTNAME > /workspace/x"))
    reader = make_pod(1, pod=shared, volumeMounts=mounts, **script("cat /workspace/x"))
    context = make_context(writer, reader, isolation=detect_isolation(paths), claims=("initializer",))
    run(writer, context=context)
    log, _ = run(reader, context=context)
    assert log == "from job-node-0-0\n"
    assert (tmp_path / "state/default/job/volumes/initializer/x").exists()


def test_a_claim_of_nobodys_template_is_shared_between_jobs(make_pod: Any, run: Any, tmp_path: Path) -> None:
    shared = {"volumes": [{"name": "ws", "persistentVolumeClaim": {"claimName": "models"}}]}
    run(make_pod(pod=shared, volumeMounts=[volume("ws", "/models")], **script("echo x > /models/x")))
    other = make_pod(
        job="other", pod=shared, volumeMounts=[volume("ws", "/models", readOnly=True)], **script("cat /models/x")
    )
    assert run(other, job="other")[0] == "x\n"
    assert (tmp_path / "state/.claims/default/models/x").exists()


def test_config_maps_and_secrets_are_files_with_modes(make_pod: Any, run: Any, tmp_path: Path) -> None:
    pod = make_pod(
        pod={
            "volumes": [
                {"name": "c", "configMap": {"name": "conf", "defaultMode": 0o755}},
                {
                    "name": "s",
                    "secret": {
                        "secretName": "key",
                        "defaultMode": 0o400,
                        "items": [{"key": "id", "path": "deep/id_rsa"}, {"key": "pub", "path": "pub", "mode": 0o644}],
                    },
                },
                {"name": "none", "configMap": {"name": "absent", "optional": True}},
            ]
        },
        volumeMounts=[
            volume("c", "/etc/conf"),
            volume("s", "/etc/keys"),
            volume("none", "/etc/none"),
            volume("c", "/opt/one.sh", subPath="run.sh"),
        ],
        **script("/etc/conf/run.sh; /opt/one.sh; cat /etc/keys/deep/id_rsa /etc/keys/pub; ls /etc/none"),
    )
    log, end = run(
        pod,
        secrets=[{"kind": "Secret", "metadata": {"name": "key"}, "stringData": {"id": "I\n", "pub": "P\n", "x": "no"}}],
        config_maps=[{"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"run.sh": "#!/bin/sh\necho run\n"}}],
    )
    assert (log, end.exit_code) == ("run\nrun\nI\nP\n", 0)
    folder = tmp_path / "state/default/job/pods/job-node-0-0/volumes/s"
    assert stat.S_IMODE((folder / "deep/id_rsa").stat().st_mode) == 0o400
    assert stat.S_IMODE((folder / "pub").stat().st_mode) == 0o644
    assert not (folder / "x").exists()
    assert stat.S_IMODE(folder.parents[1].stat().st_mode) == 0o700


def test_closing_leaves_no_secret_behind(make_pod: Any, make_context: Any, tmp_path: Path) -> None:
    pod = make_pod(pod={"volumes": [{"name": "s", "secret": {"secretName": "key", "defaultMode": 0o400}}]})
    secret = {"kind": "Secret", "metadata": {"name": "key"}, "stringData": {"id": "hunter2"}}
    server = ProgressServer("default", "job", print)
    context = make_context(pod, secrets=[secret], progress=server)
    folder = prepare_pod(pod, context).folder
    assert (folder / "volumes/s/id").read_text() == "hunter2"
    context.close()
    server.close()
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert left
    assert [file for file in left if any(text in file.read_text() for text in ("hunter2", server.token(pod)))] == []


def test_a_config_maps_script_finds_mounts_and_peers(make_pod: Any, run: Any) -> None:
    pod = make_pod(
        pod={"volumes": [{"name": "code", "configMap": {"name": "code"}}, {"name": "d", "emptyDir": {}}]},
        volumeMounts=[volume("code", "/code"), volume("d", "/data")],
        env=[{"name": "PET_MASTER_ADDR", "value": "job-node-0-0.job"}, {"name": "PET_MASTER_PORT", "value": "29500"}],
        command=["python", "/code/main.py"],
    )
    code = """
import os, pathlib, socket
pathlib.Path("/data/x").write_text("found")
print(pathlib.Path("/data/x").read_text())
print(socket.gethostbyname("job-node-0-0.job").startswith("127."))
print(os.environ["PET_MASTER_PORT"] == "job-node-0-0.job:29500".split(":")[1] != "2950" + "0")
"""
    log, _ = run(pod, config_maps=[{"kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"main.py": code}}])
    assert log == "found\nTrue\nTrue\n"


def test_downward_and_projected_volumes(make_pod: Any, run: Any) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token", "audience": "x", "expirationSeconds": 3600}},
        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    cpu = {"path": "cpu", "resourceFieldRef": {"containerName": "node", "resource": "limits.cpu"}}
    pod = make_pod(
        pod={
            "volumes": [
                {"name": "t", "projected": {"sources": sources}},
                {"name": "d", "downwardAPI": {"items": [cpu]}},
            ]
        },
        resources={"limits": {"cpu": "1500m"}},
        volumeMounts=[volume("t", "/var/run/secrets/kubeflow/trainer"), volume("d", "/etc/podinfo")],
        env=[
            {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://somewhere.svc:10443/x"},
            {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": "/var/run/secrets/kubeflow/trainer/ca.crt"},
            {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": "/var/run/secrets/kubeflow/trainer/token"},
        ],
        **script(
            "cd /var/run/secrets/kubeflow/trainer; cat ca.crt labels /etc/podinfo/cpu; echo; "
            'cat "$KUBEFLOW_TRAINER_SERVER_TOKEN"; echo; '
            'echo "$KUBEFLOW_TRAINER_SERVER_URL" "$KUBEFLOW_TRAINER_SERVER_CA_CERT"'
        ),
    )
    server = ProgressServer("default", "job", print)
    ca = {"kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": "CA\n"}}
    log, end = run(pod, config_maps=[ca], progress=server)
    assert end.exit_code == 0, log
    assert log == f'CA\nteam="blue"2\n{server.token(pod)}\n{server.url} \n'
    server.close()


def test_initializers_can_report_although_the_plan_gives_them_no_server(make_pod: Any, run: Any) -> None:
    pod = make_pod(**script('cat "$KUBEFLOW_TRAINER_SERVER_TOKEN"; stat -c %a "$KUBEFLOW_TRAINER_SERVER_TOKEN"'))
    server = ProgressServer("default", "job", print)
    assert run(pod, progress=server)[0] == f"{server.token(pod)}600\n"
    server.close()


def test_sub_paths_are_made_and_expanded(make_pod: Any, run: Any, tmp_path: Path) -> None:
    pod = make_pod(
        1,
        pod={"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]},
        env=[{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        volumeMounts=[
            volume("d", "/out", subPathExpr="runs/$(WHO)"),
            volume("d", "/out/cache", subPath="cache"),
            volume("d", "/all"),
        ],
        **script("echo a > /out/a; echo b > /out/cache/b; cat /all/runs/job-node-0-1/a /all/cache/b"),
    )
    assert run(pod)[0] == "a\nb\n"


def test_read_only_mounts_refuse_writes(make_pod: Any, run: Any, paths: str) -> None:
    pod = make_pod(
        pod={"volumes": [{"name": "d", "emptyDir": {"medium": "Memory"}}]},
        volumeMounts=[volume("d", "/ro", readOnly=True), volume("d", "/rw")],
        **script("echo x > /rw/x; cat /ro/x; if echo y > /ro/y; then echo written; fi"),
    )
    log, _ = run(pod)
    assert log.startswith("x\n")
    assert ("written" in log) == (paths == "mapped")


def test_command_args_and_working_directory(make_pod: Any, run: Any, paths: str, tmp_path: Path) -> None:
    pod = make_pod(
        1,
        workingDir="/workspace/sub/dir",
        command=["sh", "-c", 'pwd; echo "$@"', "$(NAME)"],
        args=["$(DIR)/x", "$$(DIR)", "$(MISSING)", "$(HOME)", "--out=/workspace/y"],
        env=[{"name": "NAME", "value": "n"}, {"name": "DIR", "value": "/workspace/$(NAME)"}],
    )
    log, _ = run(pod)
    base = "/workspace" if paths == "namespace" else f"{tmp_path}/state/default/job/pods/job-node-0-1/workspace"
    assert log == f"{base}/sub/dir\n{base}/n/x $(DIR) $(MISSING) $(HOME) --out={base}/y\n"


def test_each_container_has_a_working_directory_of_its_own(make_pod: Any, run: Any, tmp_path: Path) -> None:
    run(make_pod(**script("echo x > here")))
    assert (tmp_path / "state/default/job/pods/job-node-0-0/work/node/here").exists()


def test_the_termination_message_is_read_from_either_place(make_pod: Any, run: Any) -> None:
    assert run(make_pod(**script("echo by-path > /dev/termination-log")))[1].message.strip() == "by-path"
    assert run(make_pod(**script('echo by-name > "$TERMINATION_LOG_PATH"')))[1].message.strip() == "by-name"
    own = make_pod(terminationMessagePath="/tmp/my-own-end", **script("echo own > /tmp/my-own-end"))
    assert run(own)[1].message.strip() == "own"
    assert not Path("/tmp/my-own-end").exists() or Path("/tmp/my-own-end").stat().st_size == 0


def test_a_new_attempt_starts_from_empty_volumes_and_keeps_claims(
    make_pod: Any, make_context: Any, paths: str, run: Any
) -> None:
    pod = make_pod(
        pod={
            "volumes": [
                {"name": "e", "emptyDir": {}},
                {"name": "ws", "persistentVolumeClaim": {"claimName": "initializer-job"}},
            ]
        },
        volumeMounts=[volume("e", "/e"), volume("ws", "/keep")],
        **script("ls /e /keep; ls; touch /e/x /keep/x y"),
    )
    context = make_context(pod, isolation=detect_isolation(paths), claims=("initializer",))
    first, _ = run(pod, context=context)
    both, _ = run(pod, context=context)
    assert "x" not in first.split()
    second = both.removeprefix(first).split()
    assert second.count("x") == 1  # The claim's.
    assert "y" not in second


def test_a_shared_memory_volume_is_the_machines_own(make_pod: Any, run: Any) -> None:
    pod = make_pod(
        pod={"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
        volumeMounts=[volume("shm", "/dev/shm")],
        **script("df /dev/shm | tail -1"),
    )
    machine = subprocess.run(["df", "/dev/shm"], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert run(pod)[0].split()[0] == machine.split()[0]


def test_preparing_fits_a_probe(make_pod: Any, make_context: Any, paths: str) -> None:
    pod = make_pod(
        ports=[{"name": "web", "containerPort": 8080}, {"containerPort": 29500}],
        env=[{"name": "X", "value": "/workspace/x"}],
    )
    context = make_context(pod, isolation=detect_isolation(paths))
    prepared = prepare_pod(pod, context)
    assert prepared.endpoint(None, "web") == (prepared.address, 8080)
    assert prepared.endpoint(None, 29500) == (prepared.address, context.network.port("job-node-0-0", 29500))
    assert prepared.endpoint("job-node-0-0.job", 8080) == (prepared.address, 8080)
    assert prepared.endpoint("10.0.0.1", 8080) == ("10.0.0.1", 8080)
    container = prepared.containers[0]
    launch = container.exec_launch(["cat", "$(X)"], log_file=prepared.folder / "probe.log")
    expected = str(prepared.folder / "workspace/x") if paths == "mapped" else "/workspace/x"
    assert launch.argv == ("cat", expected)
    assert launch.termination_file != container.launch.termination_file


def test_the_table_of_substitutions_is_data(make_pod: Any, make_context: Any, paths: str) -> None:
    pod = make_pod()
    prepared = prepare_pod(pod, make_context(pod, isolation=detect_isolation(paths)))
    described = json.loads((prepared.folder / SUBSTITUTIONS_FILE).read_text())
    assert described["isolation"].startswith(paths)
    table = described["containers"]["node"]
    assert table == prepared.containers[0].substitutions.to_dict()
    assert set(table) == {"addresses", "namesInText", "ports", "paths", "pathsInText"}
    assert set(table["addresses"]) == {"job-node-0-0", "job-node-0-0.job"}
    assert table["ports"][0]["declared"] == 29500
    assert table["pathsInText"] == table["namesInText"] == (paths == "mapped")
    assert table["paths"][0]["target"] == "/workspace"
