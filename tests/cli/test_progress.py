"""Long work: a bar with rate and time left on a terminal, nothing elsewhere, and nothing half written when stopped."""

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tracebuilder import TraceBuilder

from tracekit.cli import progress
from tracekit.cli.progress import Bar


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    # Space takes several reads and no time: a rate needs more than one.
    path.write_bytes(TraceBuilder().launched("kernel", 0, 5, 4).text() + b" " * 40_000_000)
    return str(path)


def on_terminal(*arguments: str) -> str:
    """What a command says on standard error where that is a terminal."""
    mine, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "tracekit", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment,
    ):
        os.close(theirs)
        said = b""
        while True:
            try:
                block = os.read(mine, 65536)
            except OSError:
                break
            if not block:
                break
            said += block
    os.close(mine)
    return said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("command", ["inspect", "annotate"])
def test_reading_has_a_bar_with_rate_and_time_left_on_a_terminal_alone(
    command: str, trace: str, tmp_path: Path
) -> None:
    more = ("-o", str(tmp_path / "out.json")) if command == "annotate" else ()
    said = on_terminal(command, trace, *more)
    assert "reading" in said
    assert "B/s" in said
    assert ":" in said.rsplit("B/s", 1)[1]
    piped = subprocess.run(
        [sys.executable, "-m", "tracekit", command, trace, *more], capture_output=True, check=True
    )
    assert piped.stderr == b""


def test_parts_have_a_rate_and_a_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=out, force_terminal=True, width=120, color_system=None)
    )
    with Bar() as bar:
        bar.begin("decode", 4)
        for _ in range(3):
            bar.advance()
    last = next(line for line in reversed(out.getvalue().splitlines()) if "decode" in line)
    assert "3/4" in last
    assert "/s" in last
    assert "left 0:00:0" in last


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    head = TraceBuilder().launched("kernel", 0, 5, 4).text().removesuffix(b"]}")
    event = b', {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 1, "args": {}}'
    with subprocess.Popen(
        [sys.executable, "-m", "tracekit", "report", "-", "-o", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that runs tests in the background has its children ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as running:
        assert running.stdin is not None
        # More than a pipe holds: when it is written, the command is reading and waits for the rest.
        running.stdin.write(head + event * 20_000)
        running.stdin.flush()
        running.send_signal(signal.SIGINT)
        running.stdin.close()
        running.wait(timeout=60)
        assert running.stderr is not None
        said = running.stderr.read()
        assert running.stdout is not None
        assert running.stdout.read() == b""
    assert running.returncode == 130
    assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == []
