"""Commands that record what `tracekit report` reads; the only way for engines that have no profile endpoint.

Variables and options were read in each engine's source or documentation; which of them were run is in the notes.
Words in capitals are for the reader to put in.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.errors import UsageError


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one engine is recorded.

    Attributes:
        notes: What to know of what the commands record.
        commands: Shell lines.
    """

    notes: tuple[str, ...]
    commands: tuple[str, ...]

    def text(self) -> str:
        """A shell script, the notes as its comments."""
        return "\n".join([*(f"# {note}" for note in self.notes), *self.commands])


def commands(engine: str) -> str:
    """The shell script that records an engine.

    Raises:
        UsageError: No recipe is of that name.
    """
    if engine not in RECIPES:
        raise UsageError(f"--engine {engine!r} is not known", hint=f"known: {', '.join(RECIPES)}")
    return RECIPES[engine].text()


_PROFILER = (
    """'{"profiler":"torch","torch_profiler_dir":"'"$PWD"'/traces","torch_profiler_with_stack":false,"""
    """"torch_profiler_record_shapes":true}'"""
)

_LOAD = """\
for i in $(seq 8); do
  curl -s http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
    -d '{"model":"MODEL","prompt":"Tell a long story.","max_tokens":256,"ignore_eos":true}' > /dev/null &
  requests="$requests $!"
done
wait $requests"""

_GENERATE = """\
python - <<'PY'
import torch
from torch.profiler import profile, record_function
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("MODEL", dtype="auto", device_map="auto")
batch, prompt, steps = 4, 512, 32
tokens = torch.randint(10, 1000, (batch, prompt), device=model.device)


def forward(tokens, cache, length, prefill):
    new = tokens.shape[1]
    q, k = batch * new, batch * length
    one = f"{batch}(sq{q}sk{k}sqsq{q * new}sqsk{q * length})"
    none = "0(sq0sk0sqsq0sqsk0)"
    sides = (one, none) if prefill else (none, one)
    with record_function(f"execute_{q}_context_{sides[0]}_generation_{sides[1]}"):
        output = model(tokens, past_key_values=cache, use_cache=True)
        return output.logits[:, -1:].argmax(-1), output.past_key_values


def run(steps):
    token, cache = forward(tokens, None, prompt, prefill=True)
    for step in range(steps):
        token, cache = forward(token, cache, prompt + 1 + step, prefill=False)


with torch.inference_mode():
    run(2)
    with profile(record_shapes=True) as recorded:
        run(steps)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
recorded.export_chrome_trace("traces/transformers.trace.json.gz")
PY"""

RECIPES: Mapping[str, Recipe] = {
    "vllm": Recipe(
        (
            "0.13 and later; before that, set VLLM_TORCH_PROFILER_DIR=$PWD/traces instead of --profiler-config.",
            'From 0.27 add "detailed_trace_annotation":true: attention then gets its exact work.',
        ),
        (
            "mkdir -p traces",
            f"vllm serve MODEL --profiler-config {_PROFILER} &",
            "# when it is ready:",
            "tracekit collect --engine vllm --url http://127.0.0.1:8000 --trace-dir traces -o run",
            "tracekit report run",
        ),
    ),
    "sglang": Recipe(
        ("Any server can profile; its folder is named by the request, so --trace-dir must be absolute.",),
        (
            "mkdir -p traces",
            "python -m sglang.launch_server --model-path MODEL --port 30000 &",
            "# when it is ready:",
            'tracekit collect --engine sglang --url http://127.0.0.1:30000 --trace-dir "$PWD/traces" -o run',
            "tracekit report run",
        ),
    ),
    "trtllm": Recipe(
        (
            "The PyTorch backend; iterations 100 to 150 are recorded, so the load must reach them.",
            "Nsight Systems: its step ranges say what is prefill and what is decode.",
            "Before the newer releases every rank wrote TLLM_TORCH_PROFILE_TRACE to one file: record one rank.",
        ),
        (
            "mkdir -p traces",
            (
                "TLLM_PROFILE_START_STOP=100-150 nsys profile -t cuda,nvtx -c cudaProfilerApi --cuda-graph-trace node"
                " -e TLLM_PROFILE_RECORD_GC=1,TLLM_LLMAPI_ENABLE_NVTX=1 --trace-fork-before-exec=true -o traces/trtllm"
                " trtllm-serve MODEL --port 8000 &"
            ),
            "# when it is ready:",
            _LOAD,
            "# when it has written traces/trtllm.nsys-rep:",
            "nsys export --type sqlite --output traces/trtllm.sqlite traces/trtllm.nsys-rep",
            "tracekit report traces/trtllm.sqlite",
            "# or a torch trace, with shapes and without step ranges:",
            (
                "TLLM_PROFILE_START_STOP=100-150 TLLM_TORCH_PROFILE_TRACE=$PWD/traces/trtllm.json"
                " trtllm-serve MODEL --port 8000"
            ),
        ),
    ),
    "transformers": Recipe(
        ("Prefill of a batch and greedy decode, each step with the text that says what it computes.",),
        ("mkdir -p traces", _GENERATE, "tracekit report traces/transformers.trace.json.gz"),
    ),
    "lmdeploy": Recipe(
        (
            "The PyTorch backend; records 10 s, from 60 s after the engine starts. Keep it busy then.",
            "No shapes are recorded: work stays unknown except where a model and step sizes give it.",
        ),
        (
            "mkdir -p traces",
            (
                "LMDEPLOY_PROFILE_CPU=1 LMDEPLOY_PROFILE_CUDA=1 LMDEPLOY_PROFILE_DELAY=60 LMDEPLOY_PROFILE_DURATION=10"
                " LMDEPLOY_PROFILE_USE_GZIP=1 LMDEPLOY_PROFILE_OUT_PREFIX=traces/lmdeploy_profile_"
                " lmdeploy serve api_server MODEL --backend pytorch --server-port 8000 &"
            ),
            "# when it is ready:",
            _LOAD,
            "tracekit report traces",
        ),
    ),
    "llama.cpp": Recipe(
        (
            "One capture a phase: llama.cpp writes no step ranges, so the phase is known from what was run.",
            "--cuda-graph-trace=node: without it a decode step is one opaque row.",
        ),
        (
            "mkdir -p traces",
            "nsys profile -t cuda --cuda-graph-trace=node -o traces/prefill llama-bench -m MODEL.gguf -p 512 -n 0",
            "nsys profile -t cuda --cuda-graph-trace=node -o traces/decode llama-bench -m MODEL.gguf -p 0 -n 64",
            "nsys export --type sqlite --output traces/prefill.sqlite traces/prefill.nsys-rep",
            "nsys export --type sqlite --output traces/decode.sqlite traces/decode.nsys-rep",
            "tracekit report traces/prefill.sqlite",
            "tracekit report traces/decode.sqlite",
        ),
    ),
}
