"""Host, user, environment, command line and paths that a capture holds reach no report, table, trace or error."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import nsysbuilder
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rocprofbuilder
from nsysbuilder import NsysBuilder
from rocprofbuilder import RocprofBuilder
from typer.testing import CliRunner

from tracekit.cli import app

# Every text that the builders put where recorders put what is nobody's business.
PRIVATE = (
    nsysbuilder.PRIVATE,
    nsysbuilder.HOST,
    f"/home/{nsysbuilder.USER}",
    "HF_TOKEN",
    "serve.py",
    rocprofbuilder.PRIVATE,
    rocprofbuilder.HOST,
    "hunter2",
    "output_path",
)


def nsys_file(folder: Path) -> Path:
    trace = NsysBuilder().range("[Executor] _forward_step 3: 0 ctx reqs, 0 ctx tokens, 3 gen reqs", 0, 900)
    trace.row(
        "DIAGNOSTIC_EVENT", severity=3, text=f"/home/{nsysbuilder.USER}/app failed on {nsysbuilder.HOST}"
    )
    trace.row("ThreadNames", nameId=trace.string(f"/home/{nsysbuilder.USER}/serve.py"), globalTid=1)
    return Path(trace.launched("void gemm<float>(int)", 100, 1_000, 1_250, 7).write(folder / "run.sqlite"))


def nsys_folder(folder: Path) -> Path:
    target = folder / "parquetdir"
    target.mkdir()
    with sqlite3.connect(nsys_file(folder)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            frame = pd.read_sql_query(f'SELECT * FROM "{name}"', database)  # noqa: S608 - the builder's own names
            pq.write_table(pa.Table.from_pandas(frame), target / f"{name}.parquet")
    return target


def dispatches() -> RocprofBuilder:
    trace = RocprofBuilder().call(0, 100, 105, 1).kernel("gemm", 1_000, 1_250, 1).range("decode", 90, 900, 50)
    return trace.count("gemm", SQ_WAVES=[1.0, 2.0])


def rocprof_json(folder: Path) -> Path:
    path = folder / "results.json"
    path.write_bytes(dispatches().text())
    return path


def rocpd(folder: Path) -> Path:
    return Path(dispatches().write_rocpd(folder / "results.db"))


FORMATS = [nsys_file, nsys_folder, rocprof_json, rocpd]


def holds(path: Path) -> bool:
    """Whether the capture itself holds something private, or the test could not fail."""
    files = path.iterdir() if path.is_dir() else [path]
    texts = [
        pq.read_table(file).to_pandas().to_json() if file.suffix == ".parquet" else str(file.read_bytes())
        for file in files
    ]
    return any(word in text for word in PRIVATE for text in texts)


def texts(folder: Path) -> list[str]:
    """Everything that was written, Parquet and archives unpacked."""
    found = []
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            found.append(f"{table.to_pandas().to_json()}{table.schema}{table.schema.metadata}")
        elif file.suffix == ".gz":
            found.append(gzip.decompress(file.read_bytes()).decode())
        elif file.is_file():
            found.append(file.read_text(errors="replace"))
    return found


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_nothing_private_leaves_a_capture(make: Callable[[Path], Path], tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    path = make(source)
    assert holds(path)
    out = tmp_path / "out"
    shown = []
    for arguments in (
        ["report", str(path), "-o", str(out)],
        ["report", str(path), "--json"],
        ["inspect", str(path)],
        ["inspect", str(path), "--json"],
        ["kernels", str(path), "-o", str(out / "kernels.csv")],
        ["annotate", str(path), "-o", str(out / "annotated.json.gz")],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output)
        shown.append(result.output)
    everything = [*shown, *texts(out)]
    assert len(everything) > len(shown) + 6
    for word in PRIVATE:
        assert not any(word in text for text in everything), word


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_nothing_private_is_in_the_error_of_a_damaged_capture(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    for file in path.iterdir() if path.is_dir() else [path]:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) * 2 // 3])
    result = CliRunner().invoke(app, ["report", str(path), "--json"])
    shown = result.output + ("" if result.exception is None else str(result.exception))
    assert not any(word in shown for word in PRIVATE)
    if result.exit_code == 0:  # JSON is read as far as it goes
        assert json.loads(result.stdout)["quality"]
