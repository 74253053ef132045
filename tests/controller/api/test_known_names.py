"""The tables of known names agree with JobSet's own CustomResourceDefinition, in both directions."""

from collections.abc import Iterator
from typing import Any

from trainyard.controller.api.job_set_shape import JOB_SET_SPEC
from trainyard.controller.api.shape import Amount, Boolean, Integer, ListOf, MapOf, Open, Record, Shape, Text


def differences(schema: dict[str, Any], shape: Shape, path: str) -> Iterator[str]:
    kind = schema.get("type")
    if isinstance(shape, Record):
        theirs, ours = schema.get("properties", {}), shape.fields
        yield from (f"{path}.{name}: not in our table" for name in sorted(theirs.keys() - ours.keys()))
        yield from (f"{path}.{name}: not in the definition" for name in sorted(ours.keys() - theirs.keys()))
        required = set(schema.get("required", ()))
        yield from (f"{path}.{name}: required there, not here" for name in sorted(required - set(shape.required)))
        for name in theirs.keys() & ours.keys():
            yield from differences(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(shape, ListOf):
        if kind != "array":
            yield f"{path}: a list here, {kind} there"
        else:
            yield from differences(schema["items"], shape.item, f"{path}[]")
    elif isinstance(shape, Text | Integer | Boolean):
        expected = {Text: "string", Integer: "integer", Boolean: "boolean"}[type(shape)]
        if kind != expected:
            yield f"{path}: {expected} here, {kind} there"
        if isinstance(shape, Text) and schema.get("enum") and set(schema["enum"]) != set(shape.choices):
            yield f"{path}: {shape.choices} here, {schema['enum']} there"
    elif isinstance(shape, Amount):
        if not schema.get("x-kubernetes-int-or-string"):
            yield f"{path}: a quantity here, {kind} there"
    elif isinstance(shape, MapOf):
        if "additionalProperties" not in schema:
            yield f"{path}: a map here, not there"
        else:
            yield from differences(schema["additionalProperties"], shape.item, f"{path}[*]")
    elif isinstance(shape, Open) and kind != "object":
        yield f"{path}: a mapping here, {kind} there"


def test_our_tables_agree_with_the_definition_of_jobset(job_set_schema: dict[str, Any]) -> None:
    assert list(differences(job_set_schema["properties"]["spec"], JOB_SET_SPEC, "spec")) == []
