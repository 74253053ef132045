"""Names, labels and annotations as Kubernetes wants them, and the metadata of every object and template."""

import re
from typing import Any, Final

from trainyard.controller.api.report import Report
from trainyard.controller.api.shape import ANYTHING, TEXT, TEXTS, MapOf, Record, Text

_LABEL_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DNS_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_DNS_NAME: Final = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_ANNOTATIONS_LIMIT: Final = 256 * 1024

DNS_LABEL: Final = Text(
    max_length=63,
    min_length=1,
    pattern=re.compile(_DNS_LABEL),
    expected="a name of lower-case letters, digits and hyphens (RFC 1123 label)",
)
"""RFC 1123: containers, volumes, namespaces."""
NAMESPACE: Final = Text(max_length=63, pattern=re.compile(rf"(?:{_DNS_LABEL})?"), expected=DNS_LABEL.expected)
"""As DNS_LABEL; empty is the same as none."""
DNS_NAME: Final = Text(
    max_length=253,
    min_length=1,
    pattern=re.compile(_DNS_NAME),
    expected="a name of lower-case letters, digits, hyphens and dots (RFC 1123 subdomain)",
)
"""RFC 1123: runtimes, secrets."""
TRAIN_JOB_NAME: Final = Text(
    max_length=63,
    min_length=1,
    pattern=re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?"),
    expected="a name of lower-case letters, digits and hyphens that begins with a letter (RFC 1035 label)",
)
"""RFC 1035: TrainJobs and what gives pods their names."""
QUALIFIED_NAME: Final = Text(
    max_length=253 + 1 + 63,
    min_length=1,
    pattern=re.compile(rf"(?:{_DNS_NAME}/)?{_LABEL_PART}"),
    expected="a name such as app or example.com/app, its last part at most 63 letters, digits, '-', '_' or '.'",
)
"""Keys of labels and annotations, names of resources."""
LABEL_VALUE: Final = Text(
    max_length=63,
    pattern=re.compile(rf"(?:{_LABEL_PART})?"),
    expected="a label value of letters, digits, '-', '_' or '.', beginning and ending with a letter or digit",
)

LABELS: Final = MapOf(item=LABEL_VALUE, key=QUALIFIED_NAME)
_ANNOTATION_VALUES: Final = MapOf(item=TEXT, key=QUALIFIED_NAME)


class _Annotations:
    def check(self, value: Any, report: Report) -> None:
        _ANNOTATION_VALUES.check(value, report)
        if isinstance(value, dict):
            size = sum(len(text.encode("utf-8", "replace")) for text in value.values() if isinstance(text, str))
            if size > _ANNOTATIONS_LIMIT:
                report.add(f"expected annotations of at most {_ANNOTATIONS_LIMIT} bytes in all, got {size}")


ANNOTATIONS: Final = _Annotations()

TEMPLATE_METADATA: Final = Record(
    fields={"labels": LABELS, "annotations": ANNOTATIONS, "name": TEXT, "namespace": TEXT, "finalizers": TEXTS}
)
"""Metadata of a Job, pod or claim template, with the names that JobSet's CRD has."""

_UNREAD: Final = (
    *("name", "namespace", "generateName", "uid", "resourceVersion", "generation", "selfLink", "finalizers"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "managedFields"),
)
EMBEDDED_METADATA: Final = Record(
    fields={**dict.fromkeys(_UNREAD, ANYTHING), "labels": LABELS, "annotations": ANNOTATIONS}
)
"""Metadata of a runtime's JobSet template and of patches: only labels and annotations mean something there."""
