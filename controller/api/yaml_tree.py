"""YAML text as trees whose every value knows its line, bounded in depth and size whatever the text says.

Built from the parser's events, not with PyYAML's own composer: that one recurses in C (deep nesting ends the process)
and is four times slower. Anchors, aliases and merge keys (`<<`) work; a duplicate key, an alias bomb and a key that is
no string are problems, and reading goes on behind them so that all are reported at once.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from trainyard.controller.api.field_path import Path, format_path
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.yaml_scalars import plain_value
from trainyard.controller.api.yaml_syntax import syntax_problem

Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MAX_DEPTH: Final = 100
"""Levels of nesting. A TrainingRuntime needs about 20."""
_MAX_ALIASED: Final = 100_000
"""Values that a document's aliases may add to those written out."""
_HUGE: Final = 10**12
_HALF: Final = re.compile("[\ud800-\udfff]")
_TAG: Final = "tag:yaml.org,2002:"

Value = str | int | float | bool | None


class Scalar:
    """A leaf: its value, its text as it was written, its line (from 1)."""

    __slots__ = ("line", "text", "value")
    size: Final = 1
    depth: Final = 0

    def __init__(self, value: Value, text: str, line: int) -> None:
        self.value = value
        self.text = text
        self.line = line


class Collection:
    """A mapping or a list: the line where it begins, and size and depth once aliases are written out."""

    __slots__ = ("depth", "items", "key_lines", "line", "merged", "open", "size")

    def __init__(self, items: "dict[str, Node] | list[Node]", line: int) -> None:
        self.items = items
        self.key_lines: dict[str, int] = {}
        self.merged: list[Node] = []
        self.line = line
        self.size = 1
        self.depth = 1
        self.open = True


Node = Scalar | Collection


def to_data(node: Node) -> Any:
    """Give the plain dicts, lists and values of a tree; what an alias repeats is copied, never shared."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node.items, dict):
        return {key: to_data(item) for key, item in node.items.items()}
    return [to_data(item) for item in node.items]


def find(root: Node, path: Path) -> tuple[int, Node | None]:
    """Give the line of a path, or of its nearest parent that is there, and the node when the path is there."""
    node, line = root, root.line
    for piece in path:
        items = node.items if isinstance(node, Collection) else None
        if isinstance(node, Collection) and isinstance(items, dict) and piece in items:
            line = node.key_lines.get(str(piece), node.line)
            node = items[str(piece)]
        elif isinstance(items, list) and isinstance(piece, int) and piece < len(items):
            node = items[piece]
            line = node.line
        else:
            return line, None
    return line, node


def read_trees(text: str, file: str, problems: list[Problem]) -> Iterator[Node]:
    """Give the root of each document that is not empty; add what is wrong to `problems`. Never raises on any text."""
    builder = _Builder(file, problems)
    loader = None
    try:
        loader = Loader(text)
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            root = builder.take(event)
            if root is not None and not (isinstance(root, Scalar) and root.value is None):
                yield root
            if builder.too_deep:
                break
    except yaml.YAMLError as error:
        problems.append(syntax_problem(error, text, file))
    finally:
        if loader is not None:
            loader.dispose()


class _Builder:
    """Turns the events of one stream into trees."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems
        self._stack: list[Collection] = []
        self._keys: list[str | None] = []
        """For each open collection that is a mapping: the key that waits for its value."""
        self._anchors: dict[str, Node] = {}
        self._written = 0
        self._root: Node | None = None
        self.too_deep = False

    def take(self, event: Any) -> Node | None:
        """Take one event; give the document's root when it was the document's last."""
        if isinstance(event, yaml.ScalarEvent):
            self._attach(self._scalar(event), event, plain=event.implicit[0])
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors, self._written, self._root = {}, 0, None
        elif isinstance(event, yaml.DocumentEndEvent):
            return self._finish()
        return None

    def _finish(self) -> Node | None:
        root, self._root = self._root, None
        if root is not None and root.size - self._written > _MAX_ALIASED:
            self._problem(root.line, f"aliases repeat more than {_MAX_ALIASED} values in this document")
            return None
        return root

    def _problem(self, line: int, message: str, *more: str) -> None:
        path = tuple(
            len(parent.items) if isinstance(parent.items, list) else key
            for parent, key in zip(self._stack, self._keys, strict=True)
            if key is not None or isinstance(parent.items, list)
        )
        where = format_path(tuple(piece for piece in (*path, *more) if piece is not None))
        self._problems.append(Problem(path=where, message=message, file=self._file, line=line))

    def _scalar(self, event: Any) -> Scalar:
        line = event.start_mark.line + 1
        text = event.value
        value: Value = plain_value(text) if event.implicit[0] else text
        if event.tag is not None and not event.implicit[0] and not event.implicit[1]:
            value = self._tagged(event.tag, text, line)
        if not text.isascii() and _HALF.search(text):
            message = "expected text, got half a character (a lone surrogate)"
            column = event.start_mark.column + 1
            self._problems.append(Problem(path="", message=message, file=self._file, line=line, column=column))
        node = Scalar(value, text, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _tagged(self, tag: str, text: str, line: int) -> Value:
        if tag in ("!", f"{_TAG}str"):
            return text
        value = plain_value(text)
        kinds: dict[str, tuple[type, ...]] = {
            f"{_TAG}int": (int,),
            f"{_TAG}bool": (bool,),
            f"{_TAG}float": (float, int),
            f"{_TAG}null": (type(None),),
        }
        shown = tag.replace(_TAG, "!!")
        if tag not in kinds:
            self._problem(line, f"the tag {shown} means nothing here; remove it")
        elif not isinstance(value, kinds[tag]) or (isinstance(value, bool) and tag != f"{_TAG}bool"):
            self._problem(line, f"the tag {shown} does not fit the value {text[:60]!r}")
        return value

    def _open(self, event: Any) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        node = Collection({} if mapping else [], event.start_mark.line + 1)
        if event.tag is not None and event.tag not in ("!", f"{_TAG}map" if mapping else f"{_TAG}seq"):
            self._problem(node.line, f"the tag {event.tag.replace(_TAG, '!!')} means nothing here; remove it")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if len(self._stack) >= _MAX_DEPTH:
            message = f"nested more than {_MAX_DEPTH} levels deep"
            self._problems.append(Problem(path="", message=message, file=self._file, line=node.line))
            self.too_deep = True
        self._stack.append(node)
        self._keys.append(None)

    def _close(self, event: Any) -> None:
        node = self._stack.pop()
        self._keys.pop()
        for merged in node.merged:
            self._merge(node, merged)
        children = node.items.values() if isinstance(node.items, dict) else node.items
        node.size = min(_HUGE, 1 + sum(child.size for child in children))
        node.depth = 1 + max((child.depth for child in children), default=0)
        node.open = False
        self._attach(node, event)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        node = self._anchors.get(event.anchor)
        if node is None:
            self._problem(line, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        elif isinstance(node, Collection) and node.open:
            self._problem(line, f"the alias *{event.anchor} stands inside its own anchor")
            node = None
        elif len(self._stack) + node.depth > _MAX_DEPTH:
            self._problem(line, f"nested more than {_MAX_DEPTH} levels deep, counting what *{event.anchor} repeats")
            node = None
        self._attach(node or Scalar(None, "", line), event, alias=True)

    def _merge(self, node: Collection, source: Node) -> None:
        """Add what `<<` brings, for keys that the mapping does not have itself."""
        parts = source.items if isinstance(source, Collection) and isinstance(source.items, list) else [source]
        for part in parts:
            if not isinstance(part, Collection) or not isinstance(part.items, dict) or not isinstance(node.items, dict):
                self._problem(part.line, "expected a mapping, or a list of mappings, behind the merge key <<")
                return
            for key, item in part.items.items():
                if key not in node.items:
                    node.items[key] = item
                    node.key_lines[key] = part.key_lines.get(key, part.line)

    def _attach(self, node: Node, event: Any, *, plain: bool = False, alias: bool = False) -> None:
        """Put a finished node where it belongs: into its parent, as a key, or as the root."""
        self._written += not alias
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if isinstance(parent.items, list):
            parent.items.append(node)
            return
        line = event.start_mark.line + 1
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = self._key(parent, node, line, plain)
        elif key == "<<" and parent.key_lines.get("<<", 0) < 0:
            parent.merged.append(node)
            del parent.key_lines["<<"]
            self._keys[-1] = None
        else:
            parent.items.setdefault(key, node)
            self._keys[-1] = None

    def _key(self, parent: Collection, node: Node, line: int, plain: bool) -> str:
        """Take a mapping's key; a negative line marks a merge key until its value came."""
        if isinstance(node, Collection):
            self._problem(line, "expected a string as key, got a list or a mapping")
            return f"?{len(parent.items)}"  # Stands in for it; the document is refused anyway.
        if plain and node.text == "<<":
            parent.key_lines["<<"] = -line
            return "<<"
        if not isinstance(node.value, str):
            kind = "a boolean" if isinstance(node.value, bool) else "nothing" if node.value is None else "a number"
            self._problem(
                line, f"expected a string as key, got {node.text}, which YAML reads as {kind}; write {node.text!r}"
            )
        key = node.text
        if key in parent.key_lines:
            self._problem(line, f"the key {key!r} stands here and on line {parent.key_lines[key]}; keep one", key)
        else:
            parent.key_lines[key] = line
        return key
