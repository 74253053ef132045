"""What an image's name stands for."""

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.controller.runtimes import shipped_runtimes
from trainyard.local.pods.images import Program, command_line, parse_image_options


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("trainyard/dataset-initializer:0.1.0", ("trainyard-dataset-initializer",)),
        ("registry.example.com:5000/trainyard/model-initializer:0.1.0", ("trainyard-model-initializer",)),
        ("registry.example.com/mirror/trainyard/model-initializer", ("trainyard-model-initializer",)),
        ("ghcr.io/kubeflow/trainer/dataset-initializer", ("trainyard-dataset-initializer",)),
        ("ghcr.io/kubeflow/trainer/model-initializer:v2.3.0@sha256:ab", ("trainyard-model-initializer",)),
        ("trainyard/torchtune@sha256:abcd", ()),
        ("ghcr.io/kubeflow/trainer/torchtune-trainer", ()),
        ("pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime", ()),
        ("docker.io/pytorch/pytorch", ()),
        ("python", ()),
        ("python:3.11-slim", ()),
        ("docker.io/library/python:3.11", ()),
        ("localhost/python", ()),
    ],
)
def test_known_images(image: str, words: tuple[str, ...]) -> None:
    program = parse_image_options([]).find(image)
    assert program is not None
    assert program.words == words


@pytest.mark.parametrize("image", ["", "busybox", "evil/python", "pytorch", "trainyard/unknown:1", "my/pythonic"])
def test_unknown_images(image: str) -> None:
    assert parse_image_options([]).find(image) is None


def test_every_image_of_the_shipped_runtimes_is_known() -> None:
    table = parse_image_options([])
    images = [
        container["image"]
        for runtime in shipped_runtimes().values()
        for job in runtime.spec.template.spec["replicatedJobs"]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]
    ]
    assert images
    assert [image for image in images if table.find(image) is None] == []


def test_initializers_bring_the_place_where_they_write() -> None:
    program = parse_image_options([]).find("trainyard/dataset-initializer")
    assert program is not None
    assert program.environment == {"OUTPUT_PATH": "/workspace/dataset"}


def test_an_option_adds_an_image_with_or_without_its_tag() -> None:
    table = parse_image_options(["me/train:1=python /opt/train.py --fast", "me/lib=python", "python=python3.12"])
    assert table.find("me/train:1") == Program(words=("python", "/opt/train.py", "--fast"))
    assert table.find("me/train:2") is None
    assert table.find("ghcr.io/me/lib:9") == Program()
    assert table.find("python:3") == Program(words=("python3.12",))
    assert ("me/lib", "this Python environment") in table.rows()


@pytest.mark.parametrize("option", ["me/train", "=python", "me/train=", "me/train='x"])
def test_a_malformed_option_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="--image"):
        parse_image_options([option])


def test_command_and_args_combine_as_in_kubernetes() -> None:
    program = Program(words=("prog", "-x"))
    assert command_line(program, (), ()) == ("prog", "-x")
    assert command_line(program, (), ("a",)) == ("prog", "-x", "a")
    assert command_line(program, ("c",), ()) == ("c",)
    assert command_line(program, ("c",), ("a",)) == ("c", "a")
    assert command_line(Program(), (), ("a",)) == ()
