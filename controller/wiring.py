"""Lay the TrainJob's own values over the runtime's jobs: initializers, and the trainer.

The pipeline wires the initializers. A plugin that handles an ML policy begins with `wire_trainer` and then adds its
framework's variables, so that those win over the TrainJob's, and the TrainJob's over the runtime's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from trainyard.contract import env, names
from trainyard.controller.api.train_job import InitializerSource, Trainer
from trainyard.controller.container import Container, variable
from trainyard.controller.info import Info
from trainyard.controller.resources import merge_resources


def wire_initializers(info: Info) -> Info:
    """Give the initializers' containers their source, environment and secret."""
    initializer = info.train_job.spec.initializer
    if initializer is None:
        return info
    for ancestor, source in (
        (names.DATASET_INITIALIZER, initializer.dataset),
        (names.MODEL_INITIALIZER, initializer.model),
    ):
        if source is None:
            continue
        for pod_set in info.pod_sets_of(ancestor):
            container = pod_set.main_container
            if container is not None:
                info = info.with_pod_set(pod_set.with_container(_with_source(container, source)))
    return info


def wire_trainer(
    info: Info,
    *,
    nodes: Collection[str] | None = None,
    resources: Collection[str] | None = None,
    environment: Collection[str] | None = None,
) -> Info:
    """Give the trainer's container its image, command, args, environment, resources, and its job its nodes.

    All of it goes to every job with the ancestor `trainer`. Number of nodes, resources and environment can go to other
    jobs, given by name: with MPI the launcher is the trainer, and `node` works.
    """
    trainer = info.train_job.spec.trainer or Trainer()
    trainers = [pod_set.name for pod_set in info.pod_sets_of(names.TRAINER)]
    nodes, resources, environment = (trainers if jobs is None else jobs for jobs in (nodes, resources, environment))
    for pod_set in info.pod_sets:
        container = pod_set.container(names.NODE)
        if container is not None:
            if pod_set.name in resources:
                merged = merge_resources(container.resources, trainer.resources_per_node)
                container = container.with_field("resources", merged)
            if pod_set.name in environment:
                container = container.with_env(trainer.env)
            if pod_set.name in trainers:
                container = _with_program(container, trainer)
            pod_set = pod_set.with_container(container)
        if pod_set.name in nodes:
            pod_set = replace(pod_set, count=number_of_nodes(info), own_completions=None)
        info = info.with_pod_set(pod_set)
    return info


def number_of_nodes(info: Info) -> int:
    """Give the number of nodes: the TrainJob's, where 0 means none, else the runtime's, where 0 means 1, else 1."""
    trainer = info.train_job.spec.trainer
    if trainer is not None and trainer.num_nodes is not None:
        return trainer.num_nodes
    policy = info.runtime.spec.ml_policy
    return max(1, policy.num_nodes or 1) if policy is not None else 1


def _with_source(container: Container, source: InitializerSource) -> Container:
    if source.storage_uri is not None:
        container = container.with_env([variable(env.STORAGE_URI, source.storage_uri)])
    container = container.with_env(source.env)
    return container if source.secret_ref is None else container.with_secret_env(source.secret_ref.name)


def _with_program(container: Container, trainer: Trainer) -> Container:
    """Set what the TrainJob gives; an empty list empties the runtime's, an empty image empties the image."""
    if trainer.image is not None:
        container = Container(manifest={**container.manifest, "image": trainer.image})
    if trainer.command is not None:
        container = container.with_field("command", list(trainer.command))
    if trainer.args is not None:
        container = container.with_field("args", list(trainer.args))
    return container
