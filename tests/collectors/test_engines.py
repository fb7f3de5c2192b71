"""`tracekit collect --engine`: a server's profile and load from start to report, and every way it can go wrong."""

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from collectortools import Recorder
from engineserver import Engine, serving

import tracekit
from collectors.engines.client import Client, ServerError
from collectors.engines.command import EngineRun, collect
from collectors.engines.servers import profiling_flag
from tracekit.errors import CaptureError, UnsupportedError, UsageError
from tracekit.formats import EngineRequest


class Bench:
    """An engine, a place for its traces, and a place for the capture."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.traces = folder / "traces"
        self.traces.mkdir()
        self.output = folder / "run"
        self.progress = Recorder()
        self._stack = stack
        self.url = ""

    def start(self, **traits: Any) -> Engine:
        engine = Engine(trace_dir=None if traits.get("kind") == "sglang" else self.traces, **traits)
        self.url = self._stack.enter_context(serving(engine))
        return engine

    def collect(self, engine: str = "vllm", **options: Any) -> EngineRun:
        small = {"batch": 2, "prompt_len": 30, "kv_len": 20, "decode_steps": 4, "warmup": 1, "repeats": 2}
        values = {"trace_dir": self.traces, "timeout_s": 10.0, "stop_timeout_s": 10.0, **small, **options}
        return collect(EngineRequest(engine, self.url, self.output, **values), self.progress)

    def manifest(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.output / "engine.json").read_text())
        return document


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


def test_a_vllm_run_becomes_a_folder_whose_report_knows_its_phases(bench: Bench) -> None:
    engine = bench.start()
    run = bench.collect()
    assert (run.engine, run.version, run.model) == ("vllm", "0.32.0", "tiny-llama")
    assert [file.name for file in run.files] == ["vllm_dp0_pp0_tp0_dcp0_ep0_rank0.trace.json.gz"]
    steps = tracekit.analyze([str(bench.output)]).steps
    counts = steps.groupby(steps["phase"].astype(str)).size().to_dict()
    # Two rounds of two prompts; the decode load had all its first tokens before the profile started.
    assert counts["prefill"] == 4
    assert counts["decode"] >= 2 * 4
    assert set(counts) == {"prefill", "decode"}
    assert engine.paths()[-1] == "/stop_profile"


def test_the_profile_starts_when_every_request_decodes(bench: Bench) -> None:
    engine = bench.start()
    bench.collect(batch=3)
    asked = [
        path for path in engine.paths() if path in {"/v1/completions", "/start_profile", "/stop_profile"}
    ]
    load = "/v1/completions"
    # Warm-up and decode load, then the profile around the rest of the decode and two rounds of prompts.
    assert asked == [*[load] * 6, "/start_profile", *[load] * 6, "/stop_profile"]
    warm_up, decode, prefill = (engine.bodies(load)[at] for at in (0, 3, 6))
    assert [len(body["prompt"][0]) for body in (warm_up, decode, prefill)] == [30, 20, 30]
    assert decode["max_tokens"] >= 4
    assert prefill["max_tokens"] == 1
    assert decode["ignore_eos"] is True


def test_prompts_are_the_same_for_a_seed_and_never_alike(bench: Bench) -> None:
    engine = bench.start()
    bench.collect()
    first = [tuple(body["prompt"][0]) for body in engine.bodies("/v1/completions")]
    engine.seen.clear()
    bench.collect()
    assert sorted(first) == sorted(tuple(body["prompt"][0]) for body in engine.bodies("/v1/completions"))
    assert len(set(first)) == len(first)


def test_a_mixed_load_sends_a_prompt_beside_the_decode(bench: Bench) -> None:
    bench.start()
    run = bench.collect(phases=("mixed",), decode_steps=40)
    assert [sent.load for sent in run.loads] == ["warmup", "mixed", "decode"]


def test_prefill_alone_is_profiled_alone(bench: Bench) -> None:
    bench.start()
    bench.collect(phases=("prefill",))
    steps = tracekit.analyze([str(bench.output)]).steps
    assert steps["phase"].astype(str).tolist() == ["prefill"] * 4


def test_sglang_is_told_where_and_how_to_record(bench: Bench) -> None:
    engine = bench.start(kind="sglang", ranks=2)
    run = bench.collect("sglang")
    assert engine.bodies("/start_profile") == [
        {
            "activities": ["CPU", "GPU"],
            "with_stack": False,
            "record_shapes": False,
            "output_dir": str(bench.traces),
        }
    ]
    assert [(file.name, file.rank) for file in run.files] == [
        ("sglang-TP-0.trace.json.gz", 0),
        ("sglang-TP-1.trace.json.gz", 1),
    ]
    assert run.settings == {"tp_size": 2, "attention_backend": "fa3"}
    assert run.notes == []


def test_the_folder_names_no_machine_user_path_or_key(bench: Bench) -> None:
    bench.start(key="secret-key")
    bench.collect(api_key="secret-key")
    port = bench.url.rsplit(":", 1)[1]
    for path in bench.output.iterdir():
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        assert b"secret" not in text
        assert b"secret" not in path.name.encode()
        assert port.encode() not in text


def test_the_front_end_and_older_traces_are_left_out(bench: Bench) -> None:
    bench.start()
    (bench.traces / "rank9.1.pt.trace.json.gz").write_bytes(gzip.compress(b"{}"))
    assert [file.rank for file in bench.collect().files] == [0]


def test_a_second_collection_replaces_the_first(bench: Bench) -> None:
    bench.start()
    bench.collect()
    bench.collect()
    assert len(list(bench.output.glob("*.trace.json.gz"))) == 1


def test_a_rank_that_writes_late_is_waited_for(bench: Bench) -> None:
    bench.start(kind="sglang", ranks=2, late_s=1.5)
    assert [file.rank for file in bench.collect("sglang").files] == [0, 1]


def test_a_rank_that_never_writes_is_a_note(bench: Bench) -> None:
    engine = bench.start(kind="sglang", ranks=2, late_s=30.0)
    run = bench.collect("sglang", timeout_s=1.0)
    engine.late[0].cancel()
    assert run.notes == ["1 of 2 ranks wrote a trace"]
    assert bench.manifest()["notes"] == run.notes


def test_a_trace_that_is_still_being_written_is_waited_for(bench: Bench) -> None:
    bench.start(halves_s=1.5)
    assert [file.complete for file in bench.collect().files] == [True]


def test_a_truncated_trace_is_kept_and_said(bench: Bench) -> None:
    bench.start(cut=True)
    run = bench.collect(timeout_s=1.0)
    assert [file.complete for file in run.files] == [False]
    assert run.notes == [f"{run.files[0].name} is cut off: its complete events are still read"]
    assert len(tracekit.analyze([str(bench.output)]).steps) > 0


def test_without_a_trace_folder_the_reader_is_told_where_they_are(bench: Bench) -> None:
    bench.start()
    run = bench.collect(trace_dir=None)
    assert run.files == []
    assert "torch_profiler_dir" in run.notes[0]


def test_the_wrong_trace_folder_is_an_error(bench: Bench, tmp_path: Path) -> None:
    bench.start()
    (tmp_path / "other").mkdir()
    with pytest.raises(CaptureError, match="no trace was written"):
        bench.collect(trace_dir=tmp_path / "other", timeout_s=1.0)


@pytest.mark.parametrize("described", [True, False])
def test_a_server_without_profiling_gets_the_flag_of_its_version(bench: Bench, described: bool) -> None:
    engine = bench.start(profiling=False, described=described)
    with pytest.raises(UnsupportedError) as caught:
        bench.collect()
    assert caught.value.message == "this vLLM (0.32.0) was started without profiling"
    assert f'"torch_profiler_dir":"{bench.traces}"' in caught.value.hint
    assert ("/v1/completions" in engine.paths()) is not described
    assert "/stop_profile" not in engine.paths()


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.8.5", "VLLM_TORCH_PROFILER_DIR=/t in its environment"),
        ("0.12.0", "VLLM_TORCH_PROFILER_DIR=/t in its environment"),
        (
            "0.13.0",
            (
                '--profiler-config \'{"profiler":"torch","torch_profiler_dir":"/t",'
                '"torch_profiler_with_stack":false,"torch_profiler_record_shapes":true}\''
            ),
        ),
        (
            "0.27.1rc1",
            (
                '--profiler-config \'{"profiler":"torch","torch_profiler_dir":"/t","torch_profiler_with_stack":false,'
                '"torch_profiler_record_shapes":true,"detailed_trace_annotation":true}\''
            ),
        ),
    ],
)
def test_the_flag_fits_the_version(version: str, flag: str) -> None:
    assert profiling_flag(version, "/t") == flag


def test_an_unknown_version_gets_both_flags() -> None:
    flag = profiling_flag("dev", "/t")
    assert "--profiler-config" in flag
    assert "VLLM_TORCH_PROFILER_DIR" in flag


def test_a_key_that_is_missing_is_asked_for(bench: Bench) -> None:
    bench.start(key="secret")
    with pytest.raises(ServerError) as caught:
        bench.collect()
    assert caught.value.status == 401
    assert "--api-key-env" in caught.value.hint


def test_nothing_listening_is_one_line(bench: Bench) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        bench.url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerError, match="nothing listens at the URL"):
        bench.collect()


def test_a_server_that_never_answers_is_not_waited_for_forever() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        client = Client(f"http://127.0.0.1:{mute.getsockname()[1]}", timeout_s=0.2)
        began = time.monotonic()
        with pytest.raises(ServerError, match=r"no answer within 0\.2 s"):
            client.get("/version")
        assert time.monotonic() - began < 5


def test_a_slow_stop_is_waited_for(bench: Bench) -> None:
    bench.start(stop_s=1.0)
    assert bench.collect(timeout_s=5.0).files[0].complete


def test_a_stop_that_takes_too_long_ends_and_keeps_what_is_there(bench: Bench) -> None:
    bench.start(stop_s=2.0)
    with pytest.raises(ServerError, match=r"stop_profile: no answer within 0\.5 s"):
        bench.collect(stop_timeout_s=0.5)
    assert "did not finish" in bench.manifest()["notes"][0]


def test_death_during_the_stop_keeps_what_was_written(bench: Bench) -> None:
    bench.start(dies=True, cut=True)
    with pytest.raises(ServerError) as caught:
        bench.collect()
    assert caught.value.lost
    assert "record less" in caught.value.hint
    assert [entry["complete"] for entry in bench.manifest()["files"]] == [False]
    assert len(tracekit.analyze([str(bench.output)]).steps) > 0


def test_death_during_the_load_is_the_error_that_is_shown(bench: Bench) -> None:
    bench.start(dies_after=2)
    with pytest.raises(ServerError, match="/v1/completions"):
        bench.collect(decode_steps=50)
    assert bench.manifest()["files"] == []


def test_a_load_that_is_refused_still_stops_the_profile(bench: Bench) -> None:
    engine = bench.start()

    class RefusesLater(Recorder):
        def begin(self, task: str, total: int) -> None:
            super().begin(task, total)
            if task == "prefill load":
                engine.refuse["/v1/completions"] = 400

    bench.progress = RefusesLater()
    with pytest.raises(ServerError) as caught:
        bench.collect()
    assert "the test wants it so" in caught.value.message
    assert engine.paths()[-1] == "/stop_profile"
    assert len(bench.manifest()["files"]) == 1


def test_decode_that_is_over_when_the_profile_starts_is_a_note(bench: Bench) -> None:
    bench.start(start_s=0.5)
    assert bench.collect().notes == ["2 of 2 decode requests ended before the profile started"]


def test_answers_without_a_token_end_the_collection(bench: Bench) -> None:
    engine = bench.start(empty=True)
    with pytest.raises(ServerError, match="answered without a token"):
        bench.collect()
    assert "/start_profile" not in engine.paths()


def test_a_start_without_an_answer_is_stopped_too(bench: Bench) -> None:
    engine = bench.start(start_s=1.0)
    with pytest.raises(ServerError, match="start_profile: no answer"):
        bench.collect(timeout_s=0.5)
    assert engine.paths()[-1] == "/stop_profile"


def test_a_redirect_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    with ExitStack() as stack:
        target = Engine(trace_dir=tmp_path)
        elsewhere = stack.enter_context(serving(target))
        bench.start(redirect=elsewhere)
        with pytest.raises(ServerError, match="redirects are not followed"):
            bench.collect(api_key="secret")
        assert target.seen == []


def test_proxies_of_the_environment_are_not_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    bench.start()
    assert bench.collect().files


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "ftp://127.0.0.1", "file:///etc/passwd", "http://", "http://user:word@127.0.0.1"],
)
def test_a_url_that_is_no_address_is_wrong_usage(bench: Bench, url: str) -> None:
    bench.url = url
    with pytest.raises(UsageError):
        bench.collect()


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"batch": 100_000}, {"phases": ("verify",)}, {"phases": ()}]
)
def test_a_load_that_cannot_be_sent_is_wrong_usage(bench: Bench, options: dict[str, Any]) -> None:
    engine = bench.start()
    with pytest.raises(UsageError):
        bench.collect(**options)
    assert engine.seen == []


def test_an_engine_without_an_endpoint_is_pointed_to_its_commands(bench: Bench) -> None:
    with pytest.raises(UsageError) as caught:
        bench.collect("trtllm")
    assert "--print-commands" in caught.value.hint


def test_a_workloads_capture_is_not_written_over(bench: Bench) -> None:
    bench.start()
    bench.output.mkdir()
    (bench.output / "run.json").write_text("{}")
    with pytest.raises(CaptureError, match="another kind"):
        bench.collect()
