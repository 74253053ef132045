"""Which program an image's name stands for on this machine: a visible table, and the user's own additions.

Images are not run here; the Python environment that runs `trainyard` takes their place. An image with a program of its
own (our initializers) stands for that console command; one that only brings libraries (torch, torchtune) stands for
"this Python environment", and the container must say what to run. Any registry prefix, tag and digest are accepted.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainyard.contract import env, paths
from trainyard.contract.errors import ConfigError

ENVIRONMENT: Final = "python"
"""What `--image NAME=python` and the table call this Python environment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What an image stands for."""

    words: tuple[str, ...] = ()
    """The image's own command; empty for "this Python environment"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The image's own environment, which a container's overrides."""


_HERE: Final = Program()
_DATASET: Final = Program(words=("trainyard-dataset-initializer",), environment={env.OUTPUT_PATH: paths.DATASET})
_MODEL: Final = Program(words=("trainyard-model-initializer",), environment={env.OUTPUT_PATH: paths.MODEL})

IMAGES: Final[Mapping[str, Program]] = {
    # Ours and upstream's, which do the same.
    "trainyard/dataset-initializer": _DATASET,
    "trainyard/model-initializer": _MODEL,
    "trainyard/torchtune": _HERE,
    "trainyard/base-trainer": _HERE,
    "kubeflow/trainer/dataset-initializer": _DATASET,
    "kubeflow/trainer/model-initializer": _MODEL,
    "kubeflow/trainer/torchtune-trainer": _HERE,
    "kubeflow/trainer/deepspeed-runtime": _HERE,
    "kubeflow/trainer/mlx-runtime": _HERE,
    "kubeflow/trainer/xgboost-runtime": _HERE,
    # Upstream's earlier home.
    "kubeflow/dataset-initializer": _DATASET,
    "kubeflow/model-initializer": _MODEL,
    "kubeflow/torchtune-trainer": _HERE,
    # Others that the shipped runtimes and common TrainJobs name.
    "pytorch/pytorch": _HERE,
    "python": _HERE,
    "library/python": _HERE,
    "nvidia/pytorch": _HERE,
    "nvidia/jax": _HERE,
}
"""Image, without registry, tag and digest, to what it stands for."""

_REGISTRY: Final = re.compile(r"(?:[^/]+[.:][^/]*|localhost)/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageTable:
    """The table above, with the user's additions (`--image IMAGE=COMMAND`), which come first."""

    added: Mapping[str, Program] = field(default_factory=dict)

    def find(self, image: str) -> Program | None:
        """Give what an image stands for; None when no table knows it."""
        for name in _names(image):
            if name in self.added:
                return self.added[name]
        short = _names(image)[-1]
        if short in IMAGES:
            return IMAGES[short]
        # A mirror puts folders before the name: registry.example.com/mirror/pytorch/pytorch.
        parts = short.split("/")
        tails = ("/".join(parts[start:]) for start in range(1, len(parts) - 1))
        return next((IMAGES[tail] for tail in tails if tail in IMAGES), None)

    def rows(self) -> tuple[tuple[str, str], ...]:
        """List the table for people: image, command or "this Python environment"."""
        merged = {**IMAGES, **self.added}
        return tuple((name, shlex.join(program.words) or "this Python environment") for name, program in merged.items())


def parse_image_options(options: Iterable[str]) -> ImageTable:
    """Read options `IMAGE=COMMAND` or `IMAGE=python`; raise ConfigError for another form."""
    added: dict[str, Program] = {}
    for option in options:
        image, equals, command = option.partition("=")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"--image {option!r}: cannot read the command: {error}") from error
        if not image or not equals or not words:
            raise ConfigError(f"--image: expected IMAGE=COMMAND or IMAGE={ENVIRONMENT}, got {option!r}")
        added[image] = _HERE if words == [ENVIRONMENT] else Program(words=tuple(words))
    return ImageTable(added=added)


def command_line(program: Program, command: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """Combine an image's program with a container's command and args, as Kubernetes does; empty when there is none.

    A command replaces the program; args follow whichever of both is there.
    """
    words = tuple(command) or program.words
    return (*words, *arguments) if words else ()


def _names(image: str) -> tuple[str, ...]:
    """Give an image's name as written, without digest, without tag, and without registry."""
    without_digest = image.partition("@")[0]
    folder, slash, last = without_digest.rpartition("/")
    without_tag = f"{folder}{slash}{last.partition(':')[0]}"
    return (image, without_digest, without_tag, _REGISTRY.sub("", without_tag, count=1))
