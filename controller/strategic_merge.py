"""Strategic merge: lay a partial Kubernetes object over a whole one, as `kubectl patch --type=strategic` does.

Maps merge key by key. A list merges by its merge key where Kubernetes says so, else the patch's list replaces it.
Nothing that comes in is changed; what comes out may share parts with it.

    merge({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "2"}]}, CONTAINER)

Source of the rules: the `patchStrategy` and `patchMergeKey` tags of `k8s.io/api` (core/v1, batch/v1) and of JobSet's
v1alpha2 types; order of elements: `normalizeElementOrder` in `k8s.io/apimachinery/pkg/util/strategicpatch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """How the fields of one object merge; a field that is not named here merges as a map or is replaced as a list."""

    lists: Mapping[str, MergedList] = field(default_factory=dict)
    """Fields whose lists merge element by element."""
    maps: Mapping[str, Schema] = field(default_factory=dict)
    """Fields whose maps hold such lists further down."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedList:
    """A list whose elements are matched by a key."""

    key: str
    """The field that identifies an element."""
    element: Schema = field(default_factory=Schema)
    """How two elements of one key merge."""
    replace: bool = False
    """An element of the patch replaces the one of its key as a whole, instead of merging into it."""


_PLAIN: Final = Schema()

CONTAINER: Final = Schema(
    lists={
        # As with volumes below: a value merged into a valueFrom is a variable that no pod can have.
        "env": MergedList(key="name", replace=True),
        "ports": MergedList(key="containerPort"),
        "volumeMounts": MergedList(key="mountPath"),
    }
)

POD_SPEC: Final = Schema(
    lists={
        "containers": MergedList(key="name", element=CONTAINER),
        "initContainers": MergedList(key="name", element=CONTAINER),
        # Kubernetes merges two volumes of one name into one with two sources, which no pod can have.
        "volumes": MergedList(key="name", replace=True),
        "imagePullSecrets": MergedList(key="name"),
        "schedulingGates": MergedList(key="name"),
    }
)

POD_TEMPLATE: Final = Schema(maps={"spec": POD_SPEC})
JOB_TEMPLATE: Final = Schema(maps={"spec": Schema(maps={"template": POD_TEMPLATE})})
REPLICATED_JOB: Final = Schema(lists={"dependsOn": MergedList(key="name")}, maps={"template": JOB_TEMPLATE})
JOB_SET_SPEC: Final = Schema(lists={"replicatedJobs": MergedList(key="name", element=REPLICATED_JOB)})


def merge(original: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema = _PLAIN) -> dict[str, Any]:
    """Give `original` with `patch` laid over it; a null in the patch changes nothing."""
    merged = dict(original)
    for name, value in patch.items():
        if value is None:
            continue
        current = merged.get(name)
        merged_list = schema.lists.get(name)
        if merged_list is not None and isinstance(value, list) and isinstance(current, list):
            merged[name] = _merge_list(current, value, merged_list)
        elif isinstance(value, Mapping) and isinstance(current, Mapping):
            merged[name] = merge(current, value, schema.maps.get(name, _PLAIN))
        else:
            merged[name] = value
    return merged


def _merge_list(original: Sequence[Any], patch: Sequence[Any], rule: MergedList) -> list[Any]:
    """Merge two lists of maps. The patch's elements keep the patch's order, new ones come before what follows them."""
    merged: dict[Any, Any] = {element[rule.key]: element for element in original}
    for element in patch:
        key = element[rule.key]
        if key in merged and not rule.replace:
            merged[key] = merge(merged[key], element, rule.element)
        else:
            merged[key] = element
    place = {element[rule.key]: index for index, element in enumerate(original)}
    patched = list(dict.fromkeys(element[rule.key] for element in patch))
    untouched = [key for key in place if key not in set(patched)]
    order: list[Any] = []
    while patched and untouched:
        # An untouched element goes first only where the original list had it before the next patched one.
        first = untouched if patched[0] in place and place[untouched[0]] < place[patched[0]] else patched
        order.append(first.pop(0))
    return [merged[key] for key in (*order, *patched, *untouched)]
