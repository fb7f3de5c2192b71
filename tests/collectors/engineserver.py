"""A small engine on loopback: it speaks the endpoints of vLLM or SGLang, and writes traces of what it was asked for.

One step a token: the first of a request is prefill, the others decode, each with one kernel.
"""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tracebuilder import TraceBuilder

TOKEN_S = 0.002


@dataclass
class Engine:
    """How the engine behaves, and what it saw.

    Attributes:
        kind: vllm or sglang.
        trace_dir: Where it writes; SGLang is told by the request.
        version: What it says.
        profiling: It was started with profiling on.
        described: It serves /openapi.json.
        ranks: Workers that write a trace.
        key: The bearer token it wants.
        refuse: Statuses by path.
        start_s: How long it takes to start the profile; it computes on meanwhile.
        stop_s: How long it takes to stop.
        empty: Answers hold no token.
        late_s: The last rank's trace comes so long after the answer to the stop.
        cut: Traces lose their last bytes.
        halves_s: Traces lose them too, and get them back so long after.
        dies: It ends in the middle of the stop.
        dies_after: Tokens after which it ends.
        seen: Method, path and body of each request, in order.
        redirect: Where it sends every request on to.
    """

    kind: str = "vllm"
    trace_dir: Path | None = None
    version: str = "0.32.0"
    profiling: bool = True
    described: bool = True
    ranks: int = 1
    key: str | None = None
    refuse: dict[str, int] = field(default_factory=dict)
    start_s: float = 0.0
    stop_s: float = 0.0
    empty: bool = False
    late_s: float = 0.0
    cut: bool = False
    halves_s: float = 0.0
    dies: bool = False
    dies_after: int | None = None
    redirect: str | None = None
    seen: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    steps: list[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    late: list[threading.Timer] = field(default_factory=list)

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [path for _, path, _ in self.seen]

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """What was sent to a path."""
        return [body for _, asked, body in self.seen if asked == path]

    def step(self, annotation: str) -> None:
        """Compute a step; recorded while the profile runs."""
        with self.lock:
            if self.steps is not None:
                self.steps.append(annotation)

    def write(self) -> None:
        """Write the traces of all ranks."""
        for rank in range(self.ranks):
            if rank == self.ranks - 1 and self.late_s:
                self.late.append(threading.Timer(self.late_s, self._write_rank, [rank]))
                self.late[-1].start()
            else:
                self._write_rank(rank)
        if self.kind == "vllm" and self.trace_dir is not None:
            front = TraceBuilder(options={"host_name": "secret-host"})
            front.write(self.trace_dir / "secret-host_7.async_llm.1780000000.pt.trace.json.gz")

    def _write_rank(self, rank: int) -> None:
        if self.trace_dir is None:
            return
        trace = TraceBuilder(
            options={
                "host_name": "secret-host",
                "vllm_version": self.version,
                "distributedInfo": {"rank": rank},
            },
            tail={"traceName": "/home/secret-user/trace.json"},
        )
        for number, annotation in enumerate(self.steps or []):
            at = 1000.0 * number
            trace.annotation(annotation, at, 900)
            trace.launched("void gemm_kernel()", at + 10, at + 20, 800)
        names = {
            "vllm": f"dp0_pp0_tp{rank}_dcp0_ep{rank}_rank{rank}.1780000000.pt.trace.json.gz",
            "sglang": f"1780000000.5-TP-{rank}.trace.json.gz",
        }
        data = gzip.compress(trace.text())
        path = self.trace_dir / names[self.kind]
        path.write_bytes(data[: len(data) * 2 // 3] if self.cut or self.halves_s else data)
        if self.halves_s:
            self.late.append(threading.Timer(self.halves_s, path.write_bytes, [data]))
            self.late[-1].start()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    engine: Engine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self._refused({}):
            return
        engine = self.engine
        routes = {"/start_profile": {}, "/stop_profile": {}} if engine.profiling else {}
        answers: dict[str, Any] = {
            "/v1/models": {"data": [{"id": "/home/secret-user/tiny-llama", "max_model_len": 2048}]}
        }
        if engine.kind == "vllm":
            answers["/version"] = {"version": engine.version}
            if engine.described:
                answers["/openapi.json"] = {"paths": {"/v1/completions": {}, **routes}}
        else:
            answers["/server_info"] = {
                "version": "0.5.23",
                "tp_size": engine.ranks,
                "model_path": "/home/secret-user/tiny-llama",
                "attention_backend": "fa3",
            }
        self._answer(200 if self.path in answers else 404, answers.get(self.path, {"detail": "Not Found"}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self._refused(body):
            return
        engine = self.engine
        if self.path in {"/start_profile", "/stop_profile"} and not engine.profiling:
            self._answer(404, {"detail": "Not Found"})
        elif self.path == "/start_profile":
            time.sleep(engine.start_s)
            engine.steps = []
            if "output_dir" in body:
                engine.trace_dir = Path(body["output_dir"])
            self._answer(200, {})
        elif self.path == "/stop_profile":
            self._stop()
        elif self.path == "/v1/completions":
            self._tokens(len(body["prompt"][0]), body["max_tokens"])
        elif self.path == "/generate":
            self._tokens(len(body["input_ids"]), body["sampling_params"]["max_new_tokens"])

    def _refused(self, body: dict[str, Any]) -> bool:
        engine = self.engine
        with engine.lock:
            engine.seen.append((self.command, self.path, body))
        if engine.redirect is not None:
            self.send_response(307)
            self.send_header("Location", engine.redirect + self.path)
            self.end_headers()
            return True
        if engine.key is not None and self.headers.get("Authorization") != f"Bearer {engine.key}":
            self._answer(401, {"error": "Unauthorized"})
            return True
        if self.path in engine.refuse:
            self._answer(engine.refuse[self.path], {"error": {"message": "the test wants it so"}})
            return True
        return False

    def _stop(self) -> None:
        engine = self.engine
        time.sleep(engine.stop_s)
        engine.write()
        if engine.dies:
            self._die()
            return
        engine.steps = None
        self._answer(200, {})

    def _die(self) -> None:
        """End the connection without an answer, and listen no more."""
        threading.Thread(target=self._close).start()
        self.close_connection = True

    def _close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _tokens(self, prompt: int, count: int) -> None:
        engine = self.engine
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(0 if engine.empty else count):
            if engine.dies_after is not None and engine.steps is not None and number >= engine.dies_after:
                self._die()
                return
            time.sleep(TOKEN_S)
            prefill = f"execute_context_1({prompt})_generation_0(0)"
            engine.step("execute_context_0(0)_generation_1(1)" if number else prefill)
            self.wfile.write(b'data: {"choices": [{"index": 0, "text": ""}]}\n\n')
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Quiet(ThreadingHTTPServer):
    """A server whose clients may leave."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that left is part of a test."""


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """Serve an engine; gives its URL."""
    server = Quiet(("127.0.0.1", 0), type("Bound", (Handler,), {"engine": engine}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for timer in engine.late:
            timer.join()
