"""Hugging Face's own model classes as a workload: from a configuration with random weights, or from a local folder.

Nothing is downloaded, and no code of a checkpoint is run. transformers is imported when a model is loaded, never
before.
"""

import copy
import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from collectors.decoder import StepInput
from collectors.machine import DTYPES
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.formats import Workload
from tracekit.models import ModelConfig

_INSTALL = "pip install 'tracekit-llm[transformers]'"
_OLDEST = 5
WEIGHT_STD = 0.02
# Fields that would load code or another format of weights, or name tokens that a smaller vocabulary lacks.
_DROPPED = ("auto_map", "quantization_config", "pad_token_id", "bos_token_id", "eos_token_id", "torch_dtype")


def architecture(config: ModelConfig) -> str:
    """The `model_type` whose class computes what these dimensions describe."""
    if config.latent is not None:
        return "deepseek_v3"
    if config.sinks:
        return "gpt_oss"
    if config.experts:
        return "qwen3_moe" if config.qk_norm else "mixtral"
    if config.qk_norm:
        return "qwen3"
    if config.qkv_bias and not config.output_bias:
        return "qwen2"
    return "mistral" if config.sliding_window else "llama"


def document_of(config: ModelConfig, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """A `config.json` of these dimensions.

    Args:
        config: Dimensions, truncated and sharded.
        given: The document they were read from; what it says beside the dimensions is kept.
    """
    text = dict((given or {}).get("text_config", given or {}))
    kind = text.get("model_type") or architecture(config)
    kept = {name: value for name, value in text.items() if name not in _DROPPED}
    shared = {
        "model_type": kind,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "vocab_size": config.vocab,
        "tie_word_embeddings": config.tied,
        "attention_dropout": 0.0,
        "pad_token_id": None,
        **({} if "rope_parameters" in kept or "rope_scaling" in kept else {"rope_theta": config.rope_theta}),
    }
    return {**kept, **shared, **_heads(config, kind), **_mlp(config, kind, kept), **_windows(config, kind)}


def _heads(config: ModelConfig, kind: str) -> dict[str, Any]:
    if config.latent is not None:
        return {
            "num_key_value_heads": config.heads,
            "q_lora_rank": config.latent.query_rank or None,
            "kv_lora_rank": config.latent.kv_rank,
            "qk_nope_head_dim": config.latent.nope_dim,
            "qk_rope_head_dim": config.latent.rope_dim,
            "v_head_dim": config.latent.value_dim,
        }
    biased = {"attention_bias": config.qkv_bias} if kind in {"llama", "qwen3", "qwen3_moe", "gpt_oss"} else {}
    return {"head_dim": config.head_dim, **biased}


def _mlp(config: ModelConfig, kind: str, kept: dict[str, Any]) -> dict[str, Any]:
    if not config.experts:
        biased = {"mlp_bias": config.mlp_bias} if kind == "llama" else {}
        return {"intermediate_size": config.intermediate, **biased}
    each, routed = config.experts_per_token, config.experts
    if config.latent is not None:
        # Groups limit where a token may go; only the published size has them.
        groups = {"n_group": 8, "topk_group": 4} if routed == 256 else {"n_group": 1, "topk_group": 1}  # noqa: PLR2004 - DeepSeek-V3's experts
        return {
            "intermediate_size": config.intermediate,
            "n_routed_experts": routed,
            "num_experts_per_tok": each,
            "moe_intermediate_size": config.expert_intermediate,
            "n_shared_experts": config.shared_experts,
            "first_k_dense_replace": config.first_dense,
            **{name: kept.get(name, value) for name, value in groups.items()},
        }
    if kind == "qwen3_moe":
        return {
            "intermediate_size": config.intermediate or config.expert_intermediate,
            "num_experts": routed,
            "num_experts_per_tok": each,
            "moe_intermediate_size": config.expert_intermediate,
        }
    return {
        "intermediate_size": config.expert_intermediate,
        "num_local_experts": routed,
        "num_experts_per_tok": each,
    }


def _windows(config: ModelConfig, kind: str) -> dict[str, Any]:
    if kind in {"mistral", "mixtral"}:
        return {"sliding_window": config.sliding_window or None}
    if kind in {"gpt_oss", "qwen2", "qwen3"}:
        windowed = config.windowed or (False,) * config.layers
        names = ["sliding_attention" if each else "full_attention" for each in windowed]
        return {
            "layer_types": names,
            "sliding_window": config.sliding_window or None,
            "use_sliding_window": bool(config.sliding_window),
        }
    return {}


def check_backend(workload: Workload) -> None:
    """Refuse what Hugging Face's classes are not asked for here, and a machine that lacks them.

    Raises:
        UnsupportedError: An option that only the own decoder has, or transformers is missing or old.
    """
    only = "is for tracekit's own decoder"
    refused = (
        (workload.compile, f"--compile {only}"),
        (workload.cuda_graphs, f"--cuda-graphs {only}"),
        (workload.attention not in {"sdpa", "eager"}, f"--attention {workload.attention} {only}"),
        (workload.kv_dtype != workload.dtype, f"a --kv-dtype beside --dtype {only}"),
        ("mixed" in workload.phases, "a mixed step takes two shapes, and these classes take one a batch"),
    )
    for wrong, reason in refused:
        if wrong:
            raise UnsupportedError(f"{reason}", hint="leave it out, or leave out --backend transformers")
    transformers()


def transformers() -> Any:
    """The transformers package, kept from the network.

    Raises:
        UnsupportedError: It is missing, or too old.
    """
    # Read when it is imported: whatever a configuration says, nothing is fetched.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers as found  # noqa: PLC0415 - optional, and seconds to import
    except ModuleNotFoundError as error:
        reason = f"--backend transformers needs Hugging Face transformers ({error.name} is not installed)"
        raise UnsupportedError(reason, hint=_INSTALL) from error
    if int(found.__version__.partition(".")[0]) < _OLDEST:
        reason = f"transformers {found.__version__} is too old: {_OLDEST}.0 or later is needed"
        raise UnsupportedError(reason, hint=_INSTALL)
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def has_weights(folder: Path) -> bool:
    """Whether a folder holds weights that can be read without running anything of it."""
    return any(folder.glob("*.safetensors"))


def load(
    config: ModelConfig, workload: Workload, given: dict[str, Any], checkpoint: Path | None, seed: int
) -> Any:
    """A model of Hugging Face's classes, in evaluation mode, on the workload's device.

    Args:
        config: Dimensions, truncated and sharded.
        workload: Its dtype, device and attention.
        given: The configuration it comes from; empty for a preset.
        checkpoint: Folder of local weights; None for random ones.
        seed: Seed of random weights.

    Raises:
        UnsupportedError: transformers does not know the architecture.
        CaptureError: The checkpoint cannot be read.
    """
    package = transformers()
    values = document_of(config, given)
    kind = values.pop("model_type")
    try:
        settings = package.AutoConfig.for_model(kind, **values)
    except (ValueError, KeyError, TypeError) as error:
        reason = f"transformers {package.__version__} does not take this {kind} configuration: {_line(error)}"
        raise UnsupportedError(reason, hint="run it with tracekit's own decoder") from error
    chosen = {"dtype": DTYPES[workload.dtype], "attn_implementation": _attention(config, workload)}
    if checkpoint is None:
        return _random(package, settings, chosen, torch.device(workload.device), seed)
    try:
        model = package.AutoModelForCausalLM.from_pretrained(
            str(checkpoint),
            config=settings,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            **chosen,
        )
    except (OSError, ValueError, RuntimeError, _damaged()) as error:
        reason = f"the checkpoint cannot be loaded: {_line(error)}"
        hint = "give a folder with config.json and *.safetensors of this architecture"
        raise CaptureError(checkpoint.name, reason, hint=hint) from error
    return model.eval().requires_grad_(requires_grad=False)


def _damaged() -> type[Exception]:
    """What a file that holds no weights raises."""
    from safetensors import SafetensorError  # noqa: PLC0415 - comes with transformers

    return cast("type[Exception]", SafetensorError)


def _attention(config: ModelConfig, workload: Workload) -> str:
    return "eager" if config.sinks else workload.attention


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:160]


def _random(package: Any, settings: Any, chosen: dict[str, Any], device: torch.device, seed: int) -> Any:
    """Made without memory first, so that nothing is initialised twice."""
    with torch.device("meta"):
        model = package.AutoModelForCausalLM.from_config(settings, trust_remote_code=False, **chosen)
    model = model.to_empty(device=device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        # Its own initialisation also fills the tables that are no parameters, such as rotary frequencies.
        model.init_weights()
        model.tie_weights()
        for name, parameter in model.named_parameters():
            _unsettle(name, parameter.data)
    return model.eval().requires_grad_(requires_grad=False)


def _unsettle(name: str, weight: Tensor) -> None:
    """Random numbers where the initialisation leaves one value: zeros and ones multiply faster than data does."""
    if weight.numel() > 1 and bool((weight == weight.flatten()[0]).all()):
        weight.normal_(1.0 if "norm" in name else 0.0, 0.1 if "norm" in name else WEIGHT_STD)


class Cached:
    """The KV cache of a group: Hugging Face's growing cache, begun anew at its depth for each repeat.

    A growing cache makes new tensors at every step and leaves those that it was begun with as they are, so that a
    copy of its layers is all that a new beginning takes.
    """

    def __init__(self, begun: Any, depth: int) -> None:
        self.begun = begun
        self.depth = depth
        self.current: Any = None

    def at(self, past: int) -> Any:
        """The cache that holds so many tokens: begun anew at the depth, or as the step before left it."""
        if past == self.depth or self.current is None:
            self.current = copy.copy(self.begun)
            self.current.layers = [copy.copy(layer) for layer in self.begun.layers]
        return self.current


class Hosted:
    """One of Hugging Face's causal language models behind the interface of a step."""

    def __init__(self, model: Any, dtype: torch.dtype, generator: torch.Generator) -> None:
        self.model = model
        self.dtype = dtype
        self.generator = generator
        taken = inspect.signature(type(model).forward).parameters
        # The argument was renamed within version 5.
        self.argument = "cache" if "cache" in taken else "past_key_values"

    def prepare(self, step: StepInput) -> None:
        """Nothing: these classes make their masks in each step, and that is their work."""

    def forward(self, tokens: Tensor, step: StepInput) -> Tensor:
        """The next token of each request, [requests], chosen greedily from the logits of its last one."""
        (group,) = step.groups
        out = self.model(
            input_ids=tokens.view(group.requests, group.queries),
            use_cache=True,
            logits_to_keep=1,
            **{self.argument: group.caches.at(group.past)},
        )
        chosen: Tensor = out.logits[:, -1].argmax(dim=-1)
        return chosen

    @torch.inference_mode()
    def caches(self, requests: int, _capacity: int, cached: int) -> Cached:
        """A cache that holds so many random tokens a request; nothing is run to fill it."""
        begun = self._empty()
        if cached:
            for layer, (keys, values) in enumerate(self._shapes()):
                begun.update(self._draw(requests, cached, keys), self._draw(requests, cached, values), layer)
        return Cached(begun, cached)

    def _empty(self) -> Any:
        return transformers().DynamicCache(config=self.model.config)

    def _draw(self, requests: int, tokens: int, shape: Sequence[int]) -> Tensor:
        size = (requests, shape[1], tokens, shape[3])
        drawn = torch.empty(size, dtype=self.dtype, device=self.generator.device)
        return drawn.normal_(generator=self.generator)

    def _shapes(self) -> list[tuple[Sequence[int], Sequence[int]]]:
        """Dimensions of each layer's keys and values, as one token leaves them."""
        cache = self._empty()
        one = torch.zeros((1, 1), dtype=torch.long, device=self.generator.device)
        self.model(input_ids=one, use_cache=True, logits_to_keep=1, **{self.argument: cache})
        return [(tuple(layer.keys.shape), tuple(layer.values.shape)) for layer in cache.layers]
