"""What differs between engines: endpoints, bodies, and how profiling is turned on."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from collectors.engines.client import Client, ServerError
from tracekit.errors import UnsupportedError

_PROBE_S = 20.0


class Server(Protocol):
    """One running engine."""

    name: str
    version: str | None
    model: str

    def check(self) -> None:
        """Make sure that it can profile.

        Raises:
            UnsupportedError: It cannot; the hint is the flag that turns profiling on in its version.
            ServerError: It does not answer.
        """

    def settings(self) -> dict[str, Any]:
        """What it says of itself; nothing that names a machine, a user or a path."""

    def ranks(self) -> int | None:
        """How many ranks should write a trace, where it says so."""

    def start(self) -> None:
        """Start the profile."""

    def stop(self, timeout_s: float) -> None:
        """Stop it; an engine may answer only when its traces are written."""

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[None]:
        """Ask for `count` tokens behind a prompt; yields as each part of the answer comes."""


class Vllm:
    """vLLM: profiling is a flag at its start, and the traces' folder with it."""

    name = "vllm"

    def __init__(self, client: Client, model: str | None, trace_dir: Path | None) -> None:
        self._client = client
        self._trace_dir = trace_dir
        self.version = _version(client.get("/version", _PROBE_S))
        self.model = model or _first_model(client)

    def check(self) -> None:
        """See `Server`: the profile routes exist only where profiling is on."""
        try:
            paths = self._client.get("/openapi.json", _PROBE_S).get("paths", {})
        except ServerError as error:
            # Its description may be turned off: the answer to the start itself tells then.
            if error.status is None:
                raise
            return
        if "/start_profile" not in paths:
            raise self._off()

    def settings(self) -> dict[str, Any]:
        """See `Server`."""
        listed = self._client.get("/v1/models", _PROBE_S).get("data") or [{}]
        length = listed[0].get("max_model_len")
        return {} if length is None else {"max_model_len": length}

    def ranks(self) -> int | None:
        """See `Server`: vLLM does not say."""
        return None

    def start(self) -> None:
        """See `Server`."""
        try:
            self._client.post("/start_profile")
        except ServerError as error:
            if error.status in {404, 405}:
                raise self._off() from error
            raise

    def stop(self, timeout_s: float) -> None:
        """See `Server`."""
        self._client.post("/stop_profile", timeout_s=timeout_s)

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[None]:
        """See `Server`: the OpenAI completions endpoint, with token ids as the prompt."""
        body = {
            "model": self.model,
            "prompt": [list(prompt)],
            "max_tokens": count,
            "temperature": 0,
            "ignore_eos": True,
            "detokenize": False,
            "stream": True,
        }
        for part in self._client.stream("/v1/completions", body):
            _raise_if_error("/v1/completions", part)
            yield

    def _off(self) -> UnsupportedError:
        reason = f"this vLLM ({self.version or 'of an unknown version'}) was started without profiling"
        folder = "/absolute/path" if self._trace_dir is None else str(self._trace_dir)
        return UnsupportedError(reason, hint=f"start it again with {profiling_flag(self.version, folder)}")


class Sglang:
    """SGLang: any server can profile, and the request says how and where to."""

    name = "sglang"

    def __init__(self, client: Client, model: str | None, trace_dir: Path | None) -> None:
        self._client = client
        self._trace_dir = trace_dir
        self._info = self._read_info()
        found = self._info.get("version")
        self.version = found if isinstance(found, str) else None
        self.model = model or _first_model(client)

    def _read_info(self) -> Mapping[str, Any]:
        for path in ("/server_info", "/get_server_info"):
            try:
                found = self._client.get(path, _PROBE_S)
            except ServerError as error:
                if error.status != 404:  # noqa: PLR2004 - the name of the endpoint changed between releases
                    raise
                continue
            if isinstance(found, dict):
                return found
        return {}

    def check(self) -> None:
        """See `Server`: nothing has to be turned on."""

    def settings(self) -> dict[str, Any]:
        """See `Server`."""
        values = {key: self._info.get(key) for key in _SGLANG_SETTINGS}
        return {key: value for key, value in values.items() if isinstance(value, (bool, int, float, str))}

    def ranks(self) -> int | None:
        """See `Server`: tensor and pipeline parallel ranks; data parallel attention shares the former."""
        sizes = [self._info.get(key) for key in ("tp_size", "pp_size")]
        known = [size for size in sizes if isinstance(size, int) and size > 0]
        return known[0] * (known[1] if len(known) > 1 else 1) if known else None

    def start(self) -> None:
        """See `Server`: no stacks and no shapes, so that times are the engine's own."""
        body: dict[str, Any] = {"activities": ["CPU", "GPU"], "with_stack": False, "record_shapes": False}
        if self._trace_dir is not None:
            body["output_dir"] = str(self._trace_dir)
        try:
            self._client.post("/start_profile", body)
        except ServerError as error:
            if error.status in {404, 405}:
                reason = "this server has no /start_profile: it is an old SGLang, or something in front of it"
                hint = "update SGLang, or give the port of the engine itself"
                raise UnsupportedError(reason, hint=hint) from error
            raise

    def stop(self, timeout_s: float) -> None:
        """See `Server`."""
        self._client.post("/stop_profile", timeout_s=timeout_s)

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[None]:
        """See `Server`: the native endpoint, which takes token ids."""
        sampling = {"max_new_tokens": count, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": list(prompt), "sampling_params": sampling, "stream": True}
        for part in self._client.stream("/generate", body):
            _raise_if_error("/generate", part)
            yield


SERVERS: Mapping[str, type[Vllm | Sglang]] = {"vllm": Vllm, "sglang": Sglang}

_SGLANG_SETTINGS = (
    "tp_size", "dp_size", "pp_size", "ep_size", "dtype", "quantization", "kv_cache_dtype", "attention_backend",
    "chunked_prefill_size", "enable_mixed_chunk", "disable_cuda_graph", "cuda_graph_max_bs", "max_running_requests",
    "context_length", "disable_radix_cache", "speculative_algorithm",
)  # fmt: skip


def profiling_flag(version: str | None, folder: str) -> str:
    """How a version of vLLM is started with profiling on; both ways where the version is not known.

    Source: `vllm/config/profiler.py` and `vllm/envs.py` of 0.8 to 0.33: the variable until 0.14, the option
    from 0.13, the detailed annotation from 0.27.
    """
    variable = f"VLLM_TORCH_PROFILER_DIR={folder}"
    found = re.match(r"(\d+)\.(\d+)", version or "")
    release = (int(found[1]), int(found[2])) if found else None
    config: dict[str, Any] = {
        "profiler": "torch",
        "torch_profiler_dir": folder,
        "torch_profiler_with_stack": False,
        "torch_profiler_record_shapes": True,
    }
    if release is not None and release >= (0, 27):
        config["detailed_trace_annotation"] = True
    option = f"--profiler-config '{json.dumps(config, separators=(',', ':'))}'"
    if release is None:
        return f"{option} (0.13 and later) or {variable} in its environment (before)"
    return option if release >= (0, 13) else f"{variable} in its environment"


def _version(answer: Any) -> str | None:
    found = answer.get("version") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else None


def _first_model(client: Client) -> str:
    answer = client.get("/v1/models", _PROBE_S)
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not listed or not isinstance(listed[0], dict) or not isinstance(listed[0].get("id"), str):
        raise ServerError("/v1/models: the server lists no model", hint="name one with --model")
    name: str = listed[0]["id"]
    return name


def _raise_if_error(path: str, part: Any) -> None:
    """An error in the middle of a stream comes as an event, with status 200 long sent."""
    error = part.get("error") if isinstance(part, dict) else None
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        raise ServerError(f"{path}: {str(said)[:160]}", hint="shorten --prompt-len or --kv-len")
