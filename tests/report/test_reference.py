"""The published schema is the contract's, and what the report writes keeps it."""

from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tracekit.report import Result
from tracekit.report.reference import json_schema, reference_page, schema_text

Make = Callable[..., Result]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_published_schema_is_up_to_date() -> None:
    assert (REFERENCE / "report.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_reference_page_is_up_to_date() -> None:
    assert reference_page().strip() in (REFERENCE / "report-json.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("steps", [0, 1, 24])
def test_summaries_keep_the_schema(big_result: Make, make_result: Make, steps: int) -> None:
    result = big_result(steps=steps) if steps else make_result([])
    jsonschema.Draft202012Validator(json_schema()).validate(result.summary)


def test_the_schema_refuses_what_is_not_a_summary(make_result: Make) -> None:
    broken = {**make_result([]).summary, "phases": [{"phase": "decode"}]}
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        jsonschema.Draft202012Validator(json_schema()).validate(broken)
