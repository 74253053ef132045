"""JobSetSpec (jobset.x-k8s.io/v1alpha2, as of JobSet 0.12) and the Job specs in it."""

from typing import Any, Final

from trainyard.controller.api.names_shape import DNS_LABEL, DNS_NAME, TEMPLATE_METADATA, TRAIN_JOB_NAME
from trainyard.controller.api.pod_shape import POD_TEMPLATE
from trainyard.controller.api.problem import nearest
from trainyard.controller.api.report import Report
from trainyard.controller.api.shape import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INT32,
    OPEN,
    SECONDS,
    TEXT,
    TEXTS,
    Integer,
    ListOf,
    Record,
    Text,
)

_POD_FAILURE_RULE: Final = Record(
    fields={
        "action": Text(choices=("FailJob", "FailIndex", "Ignore", "Count")),
        "onExitCodes": Record(
            fields={
                "containerName": TEXT,
                "operator": Text(choices=("In", "NotIn")),
                "values": ListOf(item=Integer(minimum=-INT32), min_items=1, max_items=255),
            },
            required=("operator", "values"),
        ),
        "onPodConditions": ListOf(item=Record(fields={"type": TEXT, "status": TEXT}, required=("type",)), max_items=20),
    },
    required=("action",),
)

_JOB_SPEC: Final = Record(
    fields={
        "activeDeadlineSeconds": SECONDS,
        "backoffLimit": COUNT,
        "backoffLimitPerIndex": COUNT,
        "completionMode": Text(choices=("Indexed", "NonIndexed")),
        "completions": COUNT,
        "managedBy": TEXT,
        "manualSelector": BOOLEAN,
        "maxFailedIndexes": COUNT,
        "parallelism": COUNT,
        "podFailurePolicy": Record(fields={"rules": ListOf(item=_POD_FAILURE_RULE, max_items=20)}, required=("rules",)),
        "podReplacementPolicy": Text(choices=("TerminatingOrFailed", "Failed")),
        "selector": OPEN,
        "successPolicy": Record(fields={"rules": ListOf(item=OPEN, max_items=20)}, required=("rules",)),
        "suspend": BOOLEAN,
        "template": POD_TEMPLATE,
        "ttlSecondsAfterFinished": COUNT,
    },
    required=("template",),
)

_DEPENDENCY: Final = Record(
    fields={"name": Text(min_length=1), "status": Text(choices=("Ready", "Complete"))}, required=("name", "status")
)
_REPLICATED_JOB: Final = Record(
    fields={
        "name": TRAIN_JOB_NAME,
        "groupName": DNS_LABEL,
        "replicas": COUNT,
        "template": Record(fields={"metadata": TEMPLATE_METADATA, "spec": _JOB_SPEC}, required=("spec",)),
        "dependsOn": ListOf(item=_DEPENDENCY, max_items=5, unique="name"),
    },
    required=("name", "template"),
)

_FAILURE_RULE: Final = Record(
    fields={
        "name": TEXT,
        "action": Text(
            choices=(
                "FailJobSet",
                "RestartJobSet",
                "RestartJobSetAndIgnoreMaxRestarts",
                "RestartJob",
                "RestartJobAndIgnoreMaxRestarts",
            )
        ),
        "onJobFailureReasons": ListOf(
            item=Text(
                choices=(
                    "BackoffLimitExceeded",
                    "DeadlineExceeded",
                    "FailedIndexes",
                    "MaxFailedIndexesExceeded",
                    "PodFailurePolicy",
                )
            )
        ),
        "onJobFailureMessagePatterns": TEXTS,
        "targetReplicatedJobs": TEXTS,
    },
    required=("name", "action"),
)


def _claim_name(value: dict[str, Any], report: Report) -> None:
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        if metadata.get("name") is None:
            report.add("required, not set", "metadata", "name")
        if metadata.get("namespace"):
            report.add("a claim lies in the namespace of its JobSet; remove it", "metadata", "namespace")


_CLAIM_TEMPLATE: Final = Record(
    fields={"apiVersion": TEXT, "kind": TEXT, "metadata": TEMPLATE_METADATA, "spec": OPEN, "status": ANYTHING},
    required=("metadata", "spec"),
    rules=(_claim_name,),
)
_CLAIM_POLICY: Final = Record(
    fields={
        "templates": ListOf(item=_CLAIM_TEMPLATE, max_items=50),
        "retentionPolicy": Record(fields={"whenDeleted": Text(choices=("Delete", "Retain"))}),
    }
)


def _names(value: dict[str, Any]) -> list[str | None]:
    """Give the replicated jobs' names by position; None where there is none."""
    jobs = value.get("replicatedJobs")
    names = [job.get("name") if isinstance(job, dict) else None for job in (jobs if isinstance(jobs, list) else ())]
    return [name if isinstance(name, str) else None for name in names]


def _dependencies(value: dict[str, Any], report: Report) -> None:
    """A job may wait for earlier ones only, so there is no cycle; name one that there is all the same."""
    names = _names(value)
    edges: dict[str, list[str]] = {}
    for index, name in enumerate(names):
        waits = value["replicatedJobs"][index].get("dependsOn") if name is not None else None
        targets = [
            entry.get("name") if isinstance(entry, dict) else None
            for entry in (waits if isinstance(waits, list) else ())
        ]
        edges.setdefault(name or "", []).extend(target for target in targets if isinstance(target, str))
    in_order = isinstance(order := value.get("startupPolicy"), dict) and order.get("startupPolicyOrder") == "InOrder"
    for index, name in enumerate(names):
        if name is None:
            continue
        waits = value["replicatedJobs"][index].get("dependsOn")
        if waits and in_order:
            report.add("not together with startupPolicy InOrder", "replicatedJobs", index, "dependsOn")
        for position, entry in enumerate(waits if isinstance(waits, list) else ()):
            target = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(target, str) and target not in names[:index]:
                message = _why_not(name, target, names, edges)
                report.add(message, "replicatedJobs", index, "dependsOn", position, "name")


def _why_not(name: str, target: str, names: list[str | None], edges: dict[str, list[str]]) -> str:
    if target == name:
        return f"the job {name!r} waits for itself"
    if target not in names:
        return f"no replicated job is called {target!r}{nearest(target, [known for known in names if known])}"
    cycle = _way(target, name, edges)
    if cycle is not None:
        return f"a cycle: {' -> '.join((name, *cycle))}"
    return f"the job {target!r} comes later; expected one before {name!r}, so put it first"


def _way(start: str, end: str, edges: dict[str, list[str]]) -> list[str] | None:
    """Find how `start` waits for `end`, directly or through others."""
    before: dict[str, str | None] = {start: None}
    queue = [start]
    while queue:
        here = queue.pop(0)
        if here == end:
            way = [here]
            while (parent := before[way[-1]]) is not None:
                way.append(parent)
            return way[::-1]
        for target in edges.get(here, ()):
            if target not in before:
                before[target] = here
                queue.append(target)
    return None


def _known_targets(value: dict[str, Any], report: Report) -> None:
    """Policies may name only jobs that exist."""
    names = [name for name in _names(value) if name is not None]
    for path in (("successPolicy",), ("failurePolicy", "rules", "*"), ("coordinator",)):
        _check_targets(value, path, names, report, ())


def _check_targets(
    value: Any, path: tuple[str, ...], names: list[str], report: Report, at: tuple[str | int, ...]
) -> None:
    if path and path[0] == "*":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            _check_targets(item, path[1:], names, report, (*at, index))
    elif path:
        if isinstance(value, dict):
            _check_targets(value.get(path[0]), path[1:], names, report, (*at, path[0]))
    elif isinstance(value, dict):
        targets = value.get("targetReplicatedJobs")
        for index, target in enumerate(targets if isinstance(targets, list) else ()):
            if isinstance(target, str) and target not in names:
                message = f"no replicated job is called {target!r}{nearest(target, names)}"
                report.add(message, *at, "targetReplicatedJobs", index)
        target = value.get("replicatedJob")
        if isinstance(target, str) and target not in names:
            report.add(f"no replicated job is called {target!r}{nearest(target, names)}", *at, "replicatedJob")


JOB_SET_SPEC: Final = Record(
    fields={
        "coordinator": Record(
            fields={"replicatedJob": TEXT, "jobIndex": COUNT, "podIndex": COUNT}, required=("replicatedJob",)
        ),
        "failurePolicy": Record(
            fields={
                "maxRestarts": COUNT,
                "restartStrategy": Text(choices=("Recreate", "BlockingRecreate", "InPlaceRestart")),
                "rules": ListOf(item=_FAILURE_RULE, unique="name"),
            }
        ),
        "managedBy": TEXT,
        "network": Record(
            fields={"enableDNSHostnames": BOOLEAN, "subdomain": DNS_NAME, "publishNotReadyAddresses": BOOLEAN}
        ),
        "replicatedJobs": ListOf(item=_REPLICATED_JOB, unique="name"),
        "startupPolicy": Record(
            fields={"startupPolicyOrder": Text(choices=("AnyOrder", "InOrder"))}, required=("startupPolicyOrder",)
        ),
        "successPolicy": Record(
            fields={"operator": Text(choices=("All", "Any")), "targetReplicatedJobs": TEXTS}, required=("operator",)
        ),
        "suspend": BOOLEAN,
        "ttlSecondsAfterFinished": COUNT,
        "volumeClaimPolicies": ListOf(item=_CLAIM_POLICY, max_items=50),
    },
    rules=(_dependencies, _known_targets),
)
