"""Documents come from what was named, with their places, and nothing else is read."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainyard.controller.api.documents import Documents, read_documents, read_text
from trainyard.controller.api.problem import InvalidError

HEAD = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: %s\n"


def problems(paths: Sequence[str], stdin: io.TextIOBase | None = None) -> list[str]:
    with pytest.raises(InvalidError) as caught:
        read_documents(paths, stdin)  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


def names_of(documents: Documents) -> list[str]:
    return [document.name for document in documents.all]


def test_a_file_a_folder_and_standard_input_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.yml").write_text(HEAD % "b")
    (folder / "a.yaml").write_text(HEAD % "a")
    (folder / "c.json").write_text(
        '{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "c"}}'
    )
    (folder / "notes.txt").write_text("[")
    (folder / ".hidden.yaml").write_text("[")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "d.yaml").write_text("[")
    (tmp_path / "x.txt").write_text(HEAD % "x")
    read = read_documents([str(tmp_path / "x.txt"), str(folder), "-"], io.StringIO(HEAD % "s"))
    assert names_of(read) == ["x", "a", "b", "c", "s"]
    assert read.all[1].file == str(folder / "a.yaml")
    assert read.all[4].locate("metadata.name") == ("-", 4)


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD % "a")
    read = read_documents([str(tmp_path), str(tmp_path / "a.yaml"), "-", "-"], io.StringIO(HEAD % "s"))
    assert names_of(read) == ["a", "s"]


def test_kinds_are_sorted_and_others_set_aside() -> None:
    read = read_text(
        f"{HEAD % 'a'}\n---\n---\n# nothing\n---\nkind: Secret\napiVersion: v1\nmetadata: {{name: s}}\n---\n"
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c, namespace: ns}\n---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r, namespace: n}\n"
        "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: r}\n---\n"
        "kind: Service\nmetadata: {name: a}\n---\nkind: Secret\napiVersion: example.com/v1\n---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: OptimizationJob\n"
    )
    assert [document.kind for document in read.ignored] == ["Service", "Secret", "OptimizationJob"]
    assert [document.name for document in read.train_jobs] == ["a"]
    assert [(document.kind, document.namespace) for document in read.runtimes] == [
        ("ClusterTrainingRuntime", ""),
        ("TrainingRuntime", "default"),
    ]
    assert [(document.name, document.namespace) for document in (*read.secrets, *read.config_maps)] == [
        ("s", "default"),
        ("c", "ns"),
    ]


def test_lists_are_unfolded() -> None:
    read = read_text(
        "kind: List\nitems:\n- kind: TrainJob\n  metadata: {name: a}\n- kind: List\n  items:\n  - kind: TrainJob\n"
        "    metadata: {name: b}\n---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJobList\nitems:\n"
        "- metadata:\n    name: c\n"
    )
    assert names_of(read) == ["a", "b", "c"]
    assert read.all[2].locate("metadata.name")[1] == 14
    assert read.all[2].api_version == "trainer.kubeflow.org/v1alpha1"


def test_the_empty_list_is_no_document() -> None:
    assert read_text("kind: List\nitems: []\n").all == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "TrainJob", "metadata": {"name": "a", "annotations": {"x": "\\ud83d\\ude00"}}}',
        '{"kind": "TrainJob", "metadata": {"name": "a"}}\n{"kind": "TrainJob", "metadata": {"name": "b"}}',
        '{\n\t"kind": "TrainJob",\n\t"metadata": {"name": "a\\/b"}\n}',
    ],
    ids=["surrogate pair", "one after another", "tabs"],
)
def test_json_that_is_not_yaml_is_read(text: str) -> None:
    assert read_text(text).all[0].kind == "TrainJob"


def test_json_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidError, match="not valid YAML"):
        read_text('{"kind": "TrainJob", "metadata": {"name": "\\ud83d"}}')


def test_two_objects_of_one_name_are_refused_with_both_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(f"# here\n{HEAD % 'a'}")
    second.write_text(f"{HEAD % 'a'}  namespace: default\n---\n{HEAD % 'a'}  namespace: other\n")
    assert problems([str(first), str(second)]) == [
        f"{second}:4: metadata.name: a second TrainJob 'a' in namespace 'default'; the first is at {first}:2"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "-:1: expected an object with apiVersion, kind and metadata, got a list"),
        ("# x\nhello\n", "-:2: expected an object with apiVersion, kind and metadata, got 'hello'"),
        ("a: 1\n", "-:1: kind: required, not set"),
        ("kind: [x]\n", "-:1: kind: expected a string, got a list"),
        ("\nkind: Trainjob\n", "-:2: kind: unknown kind 'Trainjob' in trainer.kubeflow.org; did you mean 'TrainJob'?"),
        (
            "apiVersion: trainer.kubeflow.org/v1\nkind: TrainigRuntime\n",
            "-:2: kind: unknown kind 'TrainigRuntime' in trainer.kubeflow.org; did you mean 'TrainingRuntime'?",
        ),
        ("kind: List\nitems: [3]\n", "-:2: expected an object with apiVersion, kind and metadata, got the number 3"),
    ],
)
def test_documents_that_are_no_objects_are_refused(text: str, problem: str) -> None:
    assert problems(["-"], io.StringIO(text)) == [problem]


def test_everything_wrong_with_several_files_is_said_at_once(tmp_path: Path) -> None:
    bad, latin, empty = tmp_path / "bad.yaml", tmp_path / "latin.yaml", tmp_path / "empty"
    bad.write_text("kind: TrainJob\na: *b\n")
    latin.write_bytes(b"a: 1\nb: caf\xe9\n")
    empty.mkdir()
    assert problems([str(bad), str(latin), str(empty), str(tmp_path / "no.yaml"), "a\0b", ""]) == [
        f"{bad}:2: a: the alias *b has no anchor &b before it",
        f"{latin}:2: expected UTF-8 text, got the byte 0xe9",
        f"{empty}: this folder has no .yaml, .yml or .json file",
        f"{tmp_path / 'no.yaml'}: cannot be read: No such file or directory",
        "a\0b: cannot be read: embedded null byte",
        "cannot be read: the name is empty",
    ]


def test_standard_input_that_is_not_there_is_said() -> None:
    assert problems(["-"]) == ["-: cannot be read: there is no standard input"]


def test_a_byte_order_mark_is_no_text() -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + (HEAD % "a").encode()))
    assert names_of(read_documents(["-"], stdin)) == ["a"]


def test_a_file_too_large_for_a_document_is_refused_unread(tmp_path: Path) -> None:
    huge = tmp_path / "weights.yaml"
    with huge.open("wb") as file:
        file.truncate(10**12)
    assert problems([str(huge)]) == [f"{huge}: larger than 64 MiB, which no such document is"]
