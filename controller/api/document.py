"""One object of a YAML or JSON stream: its data, and where each of its fields stands."""

from dataclasses import dataclass, field
from typing import Any

from trainyard.controller.api.assignment import apply_set
from trainyard.controller.api.field_path import Path, parse_path
from trainyard.controller.api.yaml_tree import Node, Scalar, find


@dataclass(kw_only=True, slots=True)
class Document:
    """One object of a stream. `data` is as it was written; `set` changes it before it is loaded."""

    kind: str
    namespace: str
    """`default` when the object names none; empty for a ClusterTrainingRuntime."""
    name: str
    """Empty when the object has none; `load` reports that."""
    data: dict[str, Any]
    file: str | None = None
    """As the user named it, `-` for standard input."""
    node: Node | None = None
    """The tree behind `data`; None for what was read as JSON."""
    assigned: dict[Path, str] = field(default_factory=dict)
    """What `--set` changed, and the assignment that did."""

    @property
    def api_version(self) -> str:
        """The apiVersion as written, or nothing."""
        value = self.data.get("apiVersion")
        return value if isinstance(value, str) else ""

    def locate(self, path: str | Path) -> tuple[str | None, int | None]:
        """Give file and line of a field, or of its nearest parent that is there."""
        try:
            pieces = parse_path(path) if isinstance(path, str) and path else tuple(path)
        except ValueError:
            pieces = ()
        for length in range(len(pieces), 0, -1):
            if pieces[:length] in self.assigned:
                return f"--set {self.assigned[pieces[:length]]}", None
        return self.file, None if self.node is None else find(self.node, pieces)[0]

    def spelling(self, path: Path) -> str | None:
        """Give a value as it was written, such as `yes` for true; None when that is not known."""
        node = None if self.node is None or path in self.assigned else find(self.node, path)[1]
        return node.text if isinstance(node, Scalar) else None

    def set(self, assignment: str) -> None:
        """Carry out `--set FIELD=VALUE`; raise ConfigError that names the piece which does not fit."""
        self.assigned[apply_set(self.data, assignment)] = assignment

    @property
    def place(self) -> str:
        """Say where the object begins: `job.yaml:12`."""
        line = None if self.node is None else self.node.line
        return ":".join(str(part) for part in (self.file, line) if part is not None)
