"""The command line: one file a command; errors end as one line and an exit code.

Exit codes: 0 fine, 1 a tracekit error, 2 wrong usage, 3 a threshold crossed.
"""

import gc
import os
import sys

import typer

from tracekit.cli.annotate import annotate
from tracekit.cli.calibrate import calibrate
from tracekit.cli.collect import collect
from tracekit.cli.compare import compare
from tracekit.cli.devices import devices
from tracekit.cli.inspecting import inspect
from tracekit.cli.kernels import kernels
from tracekit.cli.metrics import metrics
from tracekit.cli.options import debugging, set_debug, show_version
from tracekit.cli.reporting import report
from tracekit.cli.whatif import whatif
from tracekit.errors import TracekitError

app = typer.Typer(
    name="tracekit",
    help="What limits each kernel of an LLM inference run, how it is known, and what could be won.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (collect, report, compare, inspect, kernels, annotate, devices, calibrate, metrics, whatif):
    app.command(no_args_is_help=command in {report, compare, inspect, kernels, annotate, whatif})(command)


@app.callback()
def _main(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del version
    set_debug(on=debug)


_OBJECTS_A_COLLECTION = 500_000


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    # A command builds large tables, few cycles, and ends: looking for cycles after every 700 objects costs it a tenth.
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    try:
        app()
    except TracekitError as error:
        if debugging():
            raise
        sys.stderr.write(f"error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"  next: {error.hint}\n")
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        # The reader of a pipe has gone (`| head`): nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    finally:
        # The process ends here. To look for cycles among all that is left would cost a large report another tenth.
        gc.freeze()
