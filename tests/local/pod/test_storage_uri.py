"""Bare paths as sources, in local runs."""

from pathlib import Path

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.controller.api.documents import read_documents
from trainyard.local.pods.storage_uri import localize_document, localize_storage_uri, localize_train_job


def test_bare_paths_become_file_uris(tmp_path: Path) -> None:
    (tmp_path / "my data%").mkdir()
    assert localize_storage_uri("my data%", tmp_path) == f"file://{tmp_path}/my data%25"
    assert localize_storage_uri(f"{tmp_path}/my data%", Path("/")) == f"file://{tmp_path}/my data%25"
    for uri in ("hf://org/name", "s3://bucket/x", "file:///x", ""):
        assert localize_storage_uri(uri, tmp_path) == uri
    with pytest.raises(ConfigError, match="no such file or folder on this machine: '.*nothing'; a source"):
        localize_storage_uri("nothing", tmp_path)


def test_a_train_jobs_bare_paths_become_file_uris_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    manifest = {
        "kind": "TrainJob",
        "spec": {"initializer": {"dataset": {"storageUri": "data", "env": []}, "model": {"storageUri": "hf://a/b"}}},
    }
    expected = {
        "kind": "TrainJob",
        "spec": {
            "initializer": {
                "dataset": {"storageUri": f"file://{tmp_path}/data", "env": []},
                "model": {"storageUri": "hf://a/b"},
            }
        },
    }
    assert localize_train_job(manifest, tmp_path) == expected
    assert manifest["spec"]["initializer"]["dataset"]["storageUri"] == "data"


@pytest.mark.parametrize("spec", [None, {}, {"initializer": 3}, {"initializer": {"dataset": None}}])
def test_a_malformed_train_job_is_left_to_validation(spec: object, tmp_path: Path) -> None:
    assert localize_train_job({"spec": spec}, tmp_path) == {"spec": spec}


def test_a_relative_path_counts_from_the_file_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs" / "data").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    text = """kind: TrainJob
metadata: {name: job}
spec:
  initializer:
    dataset: {storageUri: data}
    model: {storageUri: no-such-model}
"""
    (tmp_path / "jobs" / "job.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    (document,) = read_documents(["jobs"]).train_jobs
    with pytest.raises(
        ConfigError, match=r"jobs/job.yaml:6: spec.initializer.model.storageUri: no such file or folder"
    ):
        localize_document(document)
    document.set("spec.initializer.model.storageUri=model")
    localize_document(document)
    assert document.data["spec"]["initializer"] == {
        "dataset": {"storageUri": f"file://{tmp_path}/jobs/data"},
        "model": {"storageUri": f"file://{tmp_path}/model"},
    }
