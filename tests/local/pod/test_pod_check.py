"""Every problem is found before anything is written."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.pods.pod import check_pod, check_pods


def problems(make_pod: Any, make_context: Any, *, options: dict[str, Any] | None = None, **container: Any) -> list[str]:
    pod = make_pod(**container)
    return list(check_pod(pod, make_context(pod, **(options or {}))))


def volumes(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"volumes": [{"name": f"v{index}", **entry} for index, entry in enumerate(entries)]}


def test_a_good_pod_has_no_problem_and_nothing_is_written(make_pod: Any, make_context: Any, tmp_path: Path) -> None:
    assert problems(make_pod, make_context) == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("container", "sentence"),
    [
        ({"image": "busybox:1"}, "image 'busybox:1' is not one that runs without a container engine; say what stands"),
        ({"image": None}, "image is not set"),
        ({"command": ["no-such-command-here"]}, "command 'no-such-command-here' does not exist: it is in no folder"),
        ({"command": ["/no/such/file"]}, "command '/no/such/file' does not exist"),
        ({"command": ["/etc/passwd"]}, "command '/etc/passwd' is not an executable file"),
        ({"command": []}, "nothing to run: the container has no command, and image 'python' brings none"),
        ({"workingDir": "/no/such/folder"}, "workingDir '/no/such/folder' does not exist on this machine"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, "env A: Secret 's'"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "no volume 'x'; the pod has none"),
        ({"volumeMounts": [{"name": "x", "mountPath": "x"}]}, "mountPath: expected an absolute path, got 'x'"),
        (
            {"pod_volumes": [{"emptyDir": {}}], "volumeMounts": [{"name": "v0", "mountPath": "/x", "subPath": "../y"}]},
            "subPath '../y': expected a path inside the volume",
        ),
        (
            {"pod_volumes": [{"emptyDir": {}}], "volumeMounts": [{"name": "v0", "mountPath": "/x"}] * 2},
            "'/x' is mounted twice",
        ),
        (
            {
                "pod_volumes": [{"emptyDir": {}}],
                "volumeMounts": [{"name": "v0", "mountPath": "/x", "subPathExpr": "$(NO)"}],
            },
            "subPathExpr '$(NO)': the container has no variable 'NO'",
        ),
        (
            {"pod_volumes": [{"hostPath": {"path": "/etc"}}]},
            "hostPath '/etc' would give the job this machine's own files",
        ),
        ({"pod_volumes": [{"nfs": {"server": "x"}}]}, "volume 'v0': volumes of kind nfs need a cluster"),
        ({"pod_volumes": [{"secret": {"secretName": "s"}}]}, "volume 'v0': Secret 's' is not there (there is none)"),
        ({"pod_volumes": [{"configMap": {"name": "c"}}]}, "volume 'v0': ConfigMap 'c' is not there"),
        ({"pod_volumes": [{"secret": {"secretName": "s", "defaultMode": "0400"}}]}, "defaultMode: expected a number"),
        ({"pod_volumes": [{"persistentVolumeClaim": {"claimName": "../x"}}]}, "claimName: expected a name"),
        (
            {"pod_volumes": [{"projected": {"sources": [{"clusterTrustBundle": {}}]}}]},
            "projected source 'clusterTrustBundle' is not supported here",
        ),
        (
            {
                "pod_volumes": [
                    {"downwardAPI": {"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}}
                ]
            },
            "file path '../x': expected a path inside the volume",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_each_problem_is_a_sentence_with_its_place(
    make_pod: Any, make_context: Any, container: dict[str, Any], sentence: str
) -> None:
    pod_volumes = container.pop("pod_volumes", ())
    found = problems(make_pod, make_context, pod=volumes(*pod_volumes), **container)
    assert len(found) == 1
    assert found[0].startswith("pod job-node-0-0, ")
    assert sentence in found[0]


def test_host_paths_are_allowed_by_a_flag(make_pod: Any, make_context: Any, tmp_path: Path) -> None:
    def host(path: object, kind: str = "") -> list[str]:
        entry = {"hostPath": {"path": str(path), "type": kind}}
        return problems(make_pod, make_context, pod=volumes(entry), options={"allow_host_paths": True})

    assert host(tmp_path) == []
    assert host(tmp_path, "Directory") == []
    assert host(tmp_path / "new", "DirectoryOrCreate") == []
    assert "is not a file" in host(tmp_path, "File")[0]
    assert "does not exist" in host(tmp_path / "no")[0]
    assert "expected an absolute path" in host("relative")[0]


def test_commands_that_only_the_container_can_know_are_not_judged(make_pod: Any, make_context: Any) -> None:
    assert problems(make_pod, make_context, command=["/workspace/bin/train"]) == []
    assert problems(make_pod, make_context, command=["./train"]) == []
    path = [{"name": "PATH", "value": "/workspace/bin:/usr/bin"}]
    assert problems(make_pod, make_context, command=["train-it"], env=path) == []
    assert problems(make_pod, make_context, command=["torchrun"], options={"environ": {"PATH": "/nowhere"}}) == []


def test_a_mount_must_not_hide_what_the_container_needs(make_pod: Any, make_context: Any, tmp_path: Path) -> None:
    mounts = [{"name": "v0", "mountPath": str(tmp_path)}, {"name": "v0", "mountPath": sys.prefix}]
    found = problems(
        make_pod, make_context, pod=volumes({"emptyDir": {}}), volumeMounts=mounts, options={"paths": "namespace"}
    )
    assert any("would hide this machine's state directory; choose another with --state-dir" in text for text in found)
    assert any("would hide this machine's Python environment" in text for text in found)


def test_a_folder_that_scripts_cannot_name_is_refused_where_paths_are_replaced(make_pod: Any, tmp_path: Path) -> None:
    from trainyard.local.containers.isolation import Isolation
    from trainyard.local.pods.job_context import open_job_context

    pod = make_pod()
    for paths, count in (("mapped", 1), ("namespace", 0)):
        context = open_job_context(
            {"metadata": {"name": "job"}},
            [pod],
            folder=tmp_path / "my state" / "job",
            state_dir=tmp_path / "my state",
            isolation=Isolation(paths=paths),  # type: ignore[arg-type]
            environ={"PATH": "/bin:/usr/bin"},
        )
        found = check_pod(pod, context)
        context.close()
        assert len(found) == count
        assert all("has the character ' '" in text for text in found)


def test_a_source_behind_a_mount_is_found(make_pod: Any, make_context: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    found = problems(
        make_pod,
        make_context,
        pod=volumes({"emptyDir": {}}),
        volumeMounts=[{"name": "v0", "mountPath": str(tmp_path)}],
        env=[{"name": "STORAGE_URI", "value": f"file://{tmp_path}/data"}],
    )
    assert len(found) == 1
    assert "the container has a volume of its own there" in found[0]


def test_pods_of_one_job_say_it_once(make_pod: Any, make_context: Any) -> None:
    pods = [make_pod(index, image="busybox") for index in range(3)]
    with pytest.raises(ConfigError) as caught:
        check_pods(pods, make_context(*pods))
    assert str(caught.value).count("busybox' is not one") == 1
