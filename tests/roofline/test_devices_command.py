"""`tracekit devices`, called as the command line calls it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from tracekit.cli.devices import devices
from tracekit.errors import UnsupportedError

app = typer.Typer()
app.command()(devices)
runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_gives_si_units_trust_and_sources() -> None:
    document = json.loads(run("NVIDIA H200", "--json"))
    (row,) = document["devices"]
    assert document["schema_version"] == 1
    assert row["flops_per_s"]["bf16"] == 989.4e12
    assert row["dram_bytes_per_s"] == 4.8e12
    assert row["ridge_flop_per_byte"]["bf16"] == pytest.approx(206, abs=0.5)
    assert row["sources"]


def test_a_name_of_several_devices_prints_them_all() -> None:
    document = json.loads(run("AMD Instinct MI250X / MI250", "--json"))
    assert {row["key"] for row in document["devices"]} == {"mi250-die", "mi250x-die"}


def test_without_a_name_every_device_has_a_line() -> None:
    lines = run().splitlines()
    count = len(json.loads(run("--json"))["devices"])
    assert count >= 50
    assert sum(line.startswith(("h100", "a100", "mi300x", "b200")) for line in lines) >= 9
    assert len(lines) == count + 3


def test_details_mark_figures_that_are_not_checked() -> None:
    text = run("h20-3e-141gb")
    assert "4.80 TB/s  [unverified]" in text
    assert "sources" in text


def test_checked_figures_carry_no_mark() -> None:
    assert "989 TFLOP/s\n" in run("h100-sxm5-80gb")


def test_an_unknown_name_is_an_error_with_near_names() -> None:
    result = runner.invoke(app, ["h100-sxn5"])
    assert isinstance(result.exception, UnsupportedError)
    assert result.exception.exit_code == 1
    assert "h100-sxm5-80gb" in result.exception.hint
