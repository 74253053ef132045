"""Pod templates: the names of core/v1 in JobSet 0.12 (Kubernetes 1.36), the types of what plan and executor read.

Deep parts that only a cluster reads (affinity, volume sources of storage vendors) are open mappings.
"""

from typing import Any, Final

from trainyard.controller.api.names_shape import DNS_LABEL, QUALIFIED_NAME, TEMPLATE_METADATA
from trainyard.controller.api.report import Report
from trainyard.controller.api.shape import (
    AMOUNT,
    BOOLEAN,
    COUNT,
    INT64,
    OPEN,
    SECONDS,
    TEXT,
    TEXTS,
    Integer,
    IntegerOrText,
    ListOf,
    MapOf,
    Record,
    Shape,
    Text,
)

_PORT: Final = Integer(minimum=1, maximum=65535)
_MODE: Final = Integer(maximum=0o777)
_ID: Final = Integer(maximum=2**31 - 1)
_NAME_REF: Final = Record(fields={"name": TEXT})
_KEY_REF: Final = Record(fields={"name": TEXT, "key": Text(min_length=1), "optional": BOOLEAN}, required=("key",))
_FIELD_REF: Final = Record(fields={"fieldPath": Text(min_length=1), "apiVersion": TEXT}, required=("fieldPath",))
_RESOURCE_REF: Final = Record(
    fields={"resource": Text(min_length=1), "containerName": TEXT, "divisor": AMOUNT}, required=("resource",)
)


def exactly_one(names: tuple[str, ...], report: Report, value: dict[str, Any], what: str) -> None:
    """Check that one of these fields is there, and only one."""
    given = [name for name in names if value.get(name) is not None]
    if not given:
        report.add(f"expected {what}, got none")
    elif len(given) > 1:
        report.add(f"expected only one of {' and '.join(given)}")


_VALUE_SOURCES: Final[dict[str, Shape]] = {
    "configMapKeyRef": _KEY_REF,
    "secretKeyRef": _KEY_REF,
    "fieldRef": _FIELD_REF,
    "resourceFieldRef": _RESOURCE_REF,
    "fileKeyRef": OPEN,
}


def _one_value_source(value: dict[str, Any], report: Report) -> None:
    exactly_one(tuple(_VALUE_SOURCES), report, value, f"one of {', '.join(_VALUE_SOURCES)}")


def _value_or_source(value: dict[str, Any], report: Report) -> None:
    if value.get("value") not in (None, "") and value.get("valueFrom") is not None:
        report.add("expected value or valueFrom, got both")


class _EnvName:
    def check(self, value: Any, report: Report) -> None:
        TEXT.check(value, report)
        if isinstance(value, str) and (not value or "=" in value or not value.isprintable() or not value.isascii()):
            report.expected("the name of an environment variable without '='", value)


_ENV_VAR: Final = Record(
    fields={
        "name": _EnvName(),
        "value": TEXT,
        "valueFrom": Record(fields=_VALUE_SOURCES, rules=(_one_value_source,)),
    },
    required=("name",),
    rules=(_value_or_source,),
)
ENV: Final = ListOf(item=_ENV_VAR, max_items=128, unique="name")
"""Env of a TrainJob or a patch: a map by name."""
_CONTAINER_ENV: Final = ListOf(item=_ENV_VAR, unique="name")


def _env_from_source(value: dict[str, Any], report: Report) -> None:
    exactly_one(("configMapRef", "secretRef"), report, value, "configMapRef or secretRef")


_OPTIONAL_REF: Final = Record(fields={"name": TEXT, "optional": BOOLEAN})
_ENV_FROM: Final = ListOf(
    item=Record(
        fields={"prefix": TEXT, "configMapRef": _OPTIONAL_REF, "secretRef": _OPTIONAL_REF}, rules=(_env_from_source,)
    )
)

_AMOUNTS: Final = MapOf(item=AMOUNT, key=QUALIFIED_NAME)
RESOURCES: Final = Record(
    fields={
        "limits": _AMOUNTS,
        "requests": _AMOUNTS,
        "claims": ListOf(
            item=Record(fields={"name": Text(min_length=1), "request": TEXT}, required=("name",)), unique="name"
        ),
    }
)

VOLUME_MOUNT: Final = Record(
    fields={
        "name": Text(min_length=1),
        "mountPath": Text(min_length=1),
        "readOnly": BOOLEAN,
        "subPath": TEXT,
        "subPathExpr": TEXT,
        "mountPropagation": TEXT,
        "recursiveReadOnly": TEXT,
    },
    required=("name", "mountPath"),
)

SECURITY_CONTEXT: Final = Record(
    fields={
        "allowPrivilegeEscalation": BOOLEAN,
        "appArmorProfile": OPEN,
        "capabilities": OPEN,
        "privileged": BOOLEAN,
        "procMount": TEXT,
        "readOnlyRootFilesystem": BOOLEAN,
        "runAsGroup": _ID,
        "runAsNonRoot": BOOLEAN,
        "runAsUser": _ID,
        "seLinuxOptions": OPEN,
        "seccompProfile": OPEN,
        "windowsOptions": OPEN,
    }
)

POD_SECURITY_CONTEXT: Final = Record(
    fields={
        "appArmorProfile": OPEN,
        "fsGroup": _ID,
        "fsGroupChangePolicy": TEXT,
        "runAsGroup": _ID,
        "runAsNonRoot": BOOLEAN,
        "runAsUser": _ID,
        "seLinuxChangePolicy": TEXT,
        "seLinuxOptions": OPEN,
        "seccompProfile": OPEN,
        "supplementalGroups": ListOf(item=_ID),
        "supplementalGroupsPolicy": TEXT,
        "sysctls": ListOf(item=OPEN),
        "windowsOptions": OPEN,
    }
)

_HTTP_GET: Final = Record(
    fields={
        "path": TEXT,
        "port": IntegerOrText(),
        "host": TEXT,
        "scheme": Text(choices=("HTTP", "HTTPS")),
        "httpHeaders": ListOf(item=OPEN),
    },
    required=("port",),
)
_HANDLERS: Final[dict[str, Shape]] = {
    "exec": Record(fields={"command": TEXTS}),
    "httpGet": _HTTP_GET,
    "tcpSocket": Record(fields={"host": TEXT, "port": IntegerOrText()}, required=("port",)),
}
_PROBE: Final = Record(
    fields={
        **_HANDLERS,
        "grpc": OPEN,
        "failureThreshold": COUNT,
        "initialDelaySeconds": COUNT,
        "periodSeconds": COUNT,
        "successThreshold": COUNT,
        "timeoutSeconds": COUNT,
        "terminationGracePeriodSeconds": SECONDS,
    }
)
_LIFECYCLE_HANDLER: Final = Record(fields={**_HANDLERS, "sleep": OPEN})


def _ports_differ(value: dict[str, Any], report: Report) -> None:
    ports = value.get("ports")
    first: dict[tuple[object, object], int] = {}
    for index, port in enumerate(ports if isinstance(ports, list) else ()):
        number = port.get("containerPort") if isinstance(port, dict) else None
        if type(number) is int and first.setdefault((number, str(port.get("protocol", "TCP"))), index) != index:
            report.add(f"the port {number} stands here and in another element; expected each only once", "ports", index)


_CONTAINER_FIELDS: Final[dict[str, Shape]] = {
    "args": TEXTS,
    "command": TEXTS,
    "env": _CONTAINER_ENV,
    "envFrom": _ENV_FROM,
    "image": TEXT,
    "imagePullPolicy": Text(choices=("Always", "IfNotPresent", "Never")),
    "lifecycle": Record(fields={"postStart": _LIFECYCLE_HANDLER, "preStop": _LIFECYCLE_HANDLER, "stopSignal": TEXT}),
    "livenessProbe": _PROBE,
    "name": DNS_LABEL,
    "ports": ListOf(
        item=Record(
            fields={
                "containerPort": _PORT,
                "hostIP": TEXT,
                "hostPort": Integer(maximum=65535),
                "name": TEXT,
                "protocol": Text(choices=("TCP", "UDP", "SCTP")),
            },
            required=("containerPort",),
        )
    ),
    "readinessProbe": _PROBE,
    "resizePolicy": ListOf(item=OPEN),
    "resources": RESOURCES,
    "restartPolicy": Text(choices=("Always", "OnFailure", "Never")),
    "restartPolicyRules": ListOf(item=OPEN),
    "securityContext": SECURITY_CONTEXT,
    "startupProbe": _PROBE,
    "stdin": BOOLEAN,
    "stdinOnce": BOOLEAN,
    "terminationMessagePath": TEXT,
    "terminationMessagePolicy": Text(choices=("File", "FallbackToLogsOnError")),
    "tty": BOOLEAN,
    "volumeDevices": ListOf(item=OPEN),
    "volumeMounts": ListOf(item=VOLUME_MOUNT, unique="mountPath"),
    "workingDir": TEXT,
}
_CONTAINER: Final = Record(fields=_CONTAINER_FIELDS, required=("name",), rules=(_ports_differ,))

_ITEMS: Final = ListOf(
    item=Record(fields={"key": Text(min_length=1), "path": Text(min_length=1), "mode": _MODE}, required=("key", "path"))
)
_DOWNWARD_ITEMS: Final = ListOf(
    item=Record(
        fields={"path": Text(min_length=1), "mode": _MODE, "fieldRef": _FIELD_REF, "resourceFieldRef": _RESOURCE_REF},
        required=("path",),
    )
)
_PROJECTIONS: Final[dict[str, Shape]] = {
    "configMap": Record(fields={"name": TEXT, "items": _ITEMS, "optional": BOOLEAN}),
    "secret": Record(fields={"name": TEXT, "items": _ITEMS, "optional": BOOLEAN}),
    "downwardAPI": Record(fields={"items": _DOWNWARD_ITEMS}),
    "serviceAccountToken": Record(
        fields={"audience": TEXT, "expirationSeconds": SECONDS, "path": Text(min_length=1)}, required=("path",)
    ),
    "clusterTrustBundle": OPEN,
    "podCertificate": OPEN,
}
_UNREAD_SOURCES: Final = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "gitRepo", "glusterfs", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_VOLUME_SOURCES: Final[dict[str, Shape]] = {
    "configMap": Record(fields={"name": TEXT, "items": _ITEMS, "defaultMode": _MODE, "optional": BOOLEAN}),
    "secret": Record(fields={"secretName": TEXT, "items": _ITEMS, "defaultMode": _MODE, "optional": BOOLEAN}),
    "downwardAPI": Record(fields={"items": _DOWNWARD_ITEMS, "defaultMode": _MODE}),
    "projected": Record(fields={"sources": ListOf(item=Record(fields=_PROJECTIONS)), "defaultMode": _MODE}),
    "emptyDir": Record(fields={"medium": TEXT, "sizeLimit": AMOUNT}),
    "hostPath": Record(fields={"path": Text(min_length=1), "type": TEXT}, required=("path",)),
    "persistentVolumeClaim": Record(
        fields={"claimName": Text(min_length=1), "readOnly": BOOLEAN}, required=("claimName",)
    ),
    "ephemeral": Record(
        fields={"volumeClaimTemplate": Record(fields={"metadata": TEMPLATE_METADATA, "spec": OPEN}, required=("spec",))}
    ),
    **dict.fromkeys(_UNREAD_SOURCES, OPEN),
}


def _at_most_one_source(value: dict[str, Any], report: Report) -> None:
    given = [name for name in _VOLUME_SOURCES if value.get(name) is not None]
    if len(given) > 1:
        report.add(f"expected one source, got {' and '.join(given)}")


VOLUMES: Final = ListOf(
    item=Record(fields={"name": DNS_LABEL, **_VOLUME_SOURCES}, required=("name",), rules=(_at_most_one_source,)),
    unique="name",
)

_TOLERATION: Final = Record(
    fields={
        "key": TEXT,
        "operator": TEXT,
        "value": TEXT,
        "effect": TEXT,
        "tolerationSeconds": Integer(minimum=-INT64, maximum=INT64),
    }
)
TOLERATIONS: Final = ListOf(item=_TOLERATION)
PULL_SECRETS: Final = ListOf(item=_NAME_REF, unique="name")
SCHEDULING_GATES: Final = ListOf(item=Record(fields={"name": TEXT}, required=("name",)), unique="name")
NODE_SELECTOR: Final = MapOf(item=TEXT)


def _names_differ(value: dict[str, Any], report: Report) -> None:
    """A container and an init container share one space of names."""
    first: dict[str, str] = {}
    for field in ("initContainers", "containers"):
        items = value.get(field)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            name = item.get("name") if isinstance(item, dict) else None
            where = f"{field}[{index}]"
            if isinstance(name, str) and first.setdefault(name, where) != where:
                report.add(f"the container name {name!r} is taken by {first[name]}", field, index, "name")


POD_SPEC: Final = Record(
    fields={
        "activeDeadlineSeconds": SECONDS,
        "affinity": OPEN,
        "automountServiceAccountToken": BOOLEAN,
        "containers": ListOf(item=_CONTAINER, min_items=1),
        "dnsConfig": OPEN,
        "dnsPolicy": TEXT,
        "enableServiceLinks": BOOLEAN,
        "ephemeralContainers": ListOf(item=OPEN, max_items=0),
        "hostAliases": ListOf(item=OPEN),
        "hostIPC": BOOLEAN,
        "hostNetwork": BOOLEAN,
        "hostPID": BOOLEAN,
        "hostUsers": BOOLEAN,
        "hostname": TEXT,
        "hostnameOverride": TEXT,
        "imagePullSecrets": PULL_SECRETS,
        "initContainers": ListOf(item=_CONTAINER),
        "nodeName": TEXT,
        "nodeSelector": NODE_SELECTOR,
        "os": OPEN,
        "overhead": _AMOUNTS,
        "preemptionPolicy": TEXT,
        "priority": Integer(minimum=-(2**31)),
        "priorityClassName": TEXT,
        "readinessGates": ListOf(item=OPEN),
        "resourceClaims": ListOf(item=OPEN, unique="name"),
        "resources": RESOURCES,
        "restartPolicy": Text(choices=("Always", "OnFailure", "Never")),
        "runtimeClassName": TEXT,
        "schedulerName": TEXT,
        "schedulingGates": SCHEDULING_GATES,
        "schedulingGroup": OPEN,
        "securityContext": POD_SECURITY_CONTEXT,
        "serviceAccount": TEXT,
        "serviceAccountName": TEXT,
        "setHostnameAsFQDN": BOOLEAN,
        "shareProcessNamespace": BOOLEAN,
        "subdomain": TEXT,
        "terminationGracePeriodSeconds": SECONDS,
        "tolerations": TOLERATIONS,
        "topologySpreadConstraints": ListOf(item=OPEN),
        "volumes": VOLUMES,
    },
    required=("containers",),
    rules=(_names_differ,),
)
POD_TEMPLATE: Final = Record(fields={"metadata": TEMPLATE_METADATA, "spec": POD_SPEC}, required=("spec",))
