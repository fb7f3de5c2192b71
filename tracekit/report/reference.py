"""The JSON schema of the summary and its reference page, both made from the contract."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from tracekit.report.contract import SCHEMA_VERSION, Summary


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of `report --json` and summary.json."""
    made = msgspec.json.schema(Summary)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracekit report summary, version {SCHEMA_VERSION}",
        **made,
    }


def schema_text() -> str:
    """The schema as the published file has it."""
    return json.dumps(json_schema(), indent=2) + "\n"


def reference_page() -> str:
    """The tables of the reference page: every field with its type and meaning."""
    definitions = json_schema()["$defs"]
    ordered = ["Summary", *(name for name in definitions if name != "Summary")]
    return "\n".join(line for name in ordered for line in _section(name, definitions[name]))


def _section(name: str, definition: dict[str, Any]) -> Iterator[str]:
    yield from (
        f"## {name}",
        "",
        definition.get("description", ""),
        "",
        "| field | type | meaning |",
        "| --- | --- | --- |",
    )
    for field, schema in definition["properties"].items():
        yield f"| `{field}` | {_type(schema)} | {schema.get('description', '').replace('|', chr(92) + '|')} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"])
    if "enum" in schema:
        return " or ".join("null" if word is None else f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object":
        return f"map of text to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _link(reference: str) -> str:
    name = reference.rsplit("/", 1)[-1]
    return f"[{name}](#{name.lower()})"
