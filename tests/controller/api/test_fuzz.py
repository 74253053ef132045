"""Whatever happens to a valid text, it is read or refused with InvalidError, in bounded time: never a traceback."""

import copy
import random
from typing import Any

import pytest
import yaml

from trainyard.controller.api.documents import read_text
from trainyard.controller.api.load import load_runtime, load_train_job
from trainyard.controller.api.problem import InvalidError

TEXT = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: job
  labels: &labels {example.com/app: demo}
spec:
  runtimeRef:
    name: runtime
  initializer:
    dataset:
      storageUri: hf://org/name
      env: [{name: A, value: "x"}]
      secretRef: {name: s}
  trainer:
    numNodes: 2
    command:
    - bash
    - -c
    - |
      echo 'hello'
    env:
    - name: B
      valueFrom: {secretKeyRef: {name: s, key: k}}
    resourcesPerNode: {limits: {cpu: 1, nvidia.com/gpu: 1.0, memory: 1Gi}}
  runtimePatches:
  - manager: example.com/x
    trainingRuntimeSpec:
      template: {metadata: {labels: *labels}, spec: {replicatedJobs: [{name: node}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: runtime
spec:
  mlPolicy: {numNodes: 1, torch: {envInjection: {targets: [{jobName: node, containerNames: [side]}]}}}
  template:
    spec:
      failurePolicy: {maxRestarts: 1, rules: [{name: a, action: FailJobSet, targetReplicatedJobs: [node]}]}
      successPolicy: {operator: All, targetReplicatedJobs: [node]}
      volumeClaimPolicies: [{templates: [{metadata: {name: initializer}, spec: {}}]}]
      replicatedJobs:
      - name: data
        template: &template
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [64]}}]}
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: node
                  image: i
                  ports: [{containerPort: 29500}]
                  envFrom: [{secretRef: {name: s}}]
                  volumeMounts: [{name: v, mountPath: /v}]
                  readinessProbe: {tcpSocket: {port: 2222}}
                volumes: [{name: v, configMap: {name: c, defaultMode: 0444}}]
      - name: node
        dependsOn: [{name: data, status: Complete}]
        template:
          <<: *template
"""
PIECES = [
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        " ",
        "\n",
        "\t",
        "-",
        "#",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!x ",
        "'",
        '"',
        "|",
        ">",
        "? ",
    ),
    *(
        "yes",
        "null",
        "~",
        "0444",
        "1e3",
        ".nan",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "\0",
        "\ufeff",
        "\x85",
        "é",
        "😀",
        "\\",
    ),
    *("name: a", "kind: List\n", "*labels", "&labels ", "- - - ", "\n  ", "\n      "),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2**31,
        2**70,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "a",
        "yes",
        "\0",
        "é" * 70,
        "x/y/z",
        "-1Gi",
    ),
    *(
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": None},
        {"a": {"b": [1]}},
        [{"name": "a"}, {"name": "a"}],
        {1: 2},
        {None: 1},
        "node",
    ),
]


def load_everything(text: str) -> None:
    for document in read_text(text).all:
        if document.kind == "TrainJob":
            load_train_job(document)
        elif document.kind.endswith("Runtime"):
            load_runtime(document)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Give every container and key in plain data."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def test_the_text_is_valid_before_it_is_mutated() -> None:
    load_everything(TEXT)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_text_is_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(150):
        text = TEXT
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(text))
            end = start + chance.choice((0, 0, 1, 5, 40))
            source = chance.randrange(len(text))
            piece = chance.choice((chance.choice(PIECES), text[source : source + chance.randint(1, 60)], ""))
            text = text[:start] + piece + text[end:]
        try:
            load_everything(text)
        except InvalidError as error:
            refused += 1
            assert str(error)
            assert all(problem.line is None or problem.line >= 1 for problem in error.problems)
    assert refused > 75


@pytest.mark.parametrize("seed", range(4))
def test_mutated_data_is_loaded_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    originals = list(yaml.safe_load_all(TEXT))
    for _ in range(400):
        data = copy.deepcopy(chance.choice(originals))
        load = load_train_job if data["kind"] == "TrainJob" else load_runtime
        for _ in range(chance.randint(1, 3)):
            parent, key = chance.choice(places(data))
            change = chance.random()
            if change < 0.6:
                parent[key] = copy.deepcopy(chance.choice(VALUES))
            elif change < 0.75:
                del parent[key]
            elif isinstance(parent, list):
                parent.append(copy.deepcopy(chance.choice(VALUES)))
            else:
                parent[chance.choice(("name", "extra", 3, None, "spec"))] = copy.deepcopy(chance.choice(VALUES))
            if not places(data):
                break
        try:
            load(data)
        except InvalidError as error:
            assert str(error)
