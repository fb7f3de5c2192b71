"""Models from a Hugging Face `config.json`, by architecture: a default is that of the architecture's own class."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.models.config import Latent, ModelConfig

CONFIG = "config.json"
"""The name of the file in a model's folder."""


def read_hf_config(path: Path) -> ModelConfig:
    """The model of a Hugging Face `config.json`.

    Raises:
        CaptureError: The file is missing or not JSON.
        UnsupportedError: An architecture that is not known, or a dimension is missing.
    """
    file = path / CONFIG if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(str(file), error.strerror or "unreadable", hint="check the path") from error
    except ValueError as error:
        raise CaptureError(str(file), "is not JSON", hint="give a Hugging Face config.json") from error
    if not isinstance(document, dict):
        raise CaptureError(str(file), "holds no JSON object", hint="give a Hugging Face config.json")
    name = file.parent.name if file.name == CONFIG else file.stem
    return from_hf_config(document, name=name or "config")


def from_hf_config(document: Mapping[str, Any], *, name: str = "config") -> ModelConfig:
    """The model that a Hugging Face configuration describes.

    Args:
        document: The configuration; one of a multimodal model is looked for under `text_config`.
        name: Name to give it.

    Raises:
        UnsupportedError: An architecture that is not known, or a dimension is missing.
    """
    text = document.get("text_config", document)
    kind = text.get("model_type", document.get("model_type"))
    if kind not in _ARCHITECTURES:
        hint = (
            f"known architectures: {', '.join(sorted(_ARCHITECTURES))}; or write a row in a folder for --data"
        )
        raise UnsupportedError(f"{name}: model_type {kind!r} is not known", hint=hint)
    try:
        values = {**_shared(text), **_ARCHITECTURES[kind](text)}
    except KeyError as error:
        hint = "give the complete config.json"
        raise UnsupportedError(f"{name}: {kind} configuration without {error}", hint=hint) from error
    return ModelConfig(name=name, source="Hugging Face config.json", **values)


def _shared(text: Mapping[str, Any]) -> dict[str, Any]:
    heads = int(text["num_attention_heads"])
    rope = text.get("rope_parameters") or {}
    return {
        "layers": int(text["num_hidden_layers"]),
        "hidden": int(text["hidden_size"]),
        "intermediate": int(text["intermediate_size"]),
        "heads": heads,
        "kv_heads": int(text.get("num_key_value_heads") or heads),
        "vocab": int(text["vocab_size"]),
        "tied": bool(text.get("tie_word_embeddings", False)),
        "rope_theta": float(text.get("rope_theta") or rope.get("rope_theta") or 10000.0),
    }


def _divided(text: Mapping[str, Any]) -> int:
    """`head_dim`, or where the architecture's class defines it so, hidden / heads."""
    return int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])


def _llama(text: Mapping[str, Any]) -> dict[str, Any]:
    bias = bool(text.get("attention_bias", False))
    return {
        "head_dim": _divided(text),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": bool(text.get("mlp_bias", False)),
    }


def _window_everywhere(text: Mapping[str, Any]) -> dict[str, Any]:
    window = int(text.get("sliding_window") or 0)
    windowed = (True,) * int(text["num_hidden_layers"]) if window else ()
    return {"sliding_window": window, "windowed": windowed}


def _mistral(text: Mapping[str, Any]) -> dict[str, Any]:
    return {"head_dim": _divided(text), **_window_everywhere(text)}


def _mixtral(text: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_mistral(text),
        "intermediate": 0,
        "experts": int(text["num_local_experts"]),
        "experts_per_token": int(text["num_experts_per_tok"]),
        "expert_intermediate": int(text["intermediate_size"]),
    }


def _listed_windows(text: Mapping[str, Any]) -> dict[str, Any]:
    kinds = text.get("layer_types") or []
    windowed = tuple(kind == "sliding_attention" for kind in kinds)
    window = int(text.get("sliding_window") or 0)
    return {"sliding_window": window, "windowed": windowed} if window and any(windowed) else {}


def _qwen2(text: Mapping[str, Any]) -> dict[str, Any]:
    return {"head_dim": _divided(text), "qkv_bias": True, **_listed_windows(text)}


def _qwen3(text: Mapping[str, Any]) -> dict[str, Any]:
    bias = bool(text.get("attention_bias", False))
    return {
        "head_dim": int(text.get("head_dim") or 128),
        "qk_norm": True,
        "qkv_bias": bias,
        "output_bias": bias,
        **_listed_windows(text),
    }


def _qwen3_moe(text: Mapping[str, Any]) -> dict[str, Any]:
    if text.get("mlp_only_layers") or int(text.get("decoder_sparse_step", 1)) != 1:
        reason = "qwen3_moe with dense layers between its expert layers"
        raise UnsupportedError(reason, hint="give a model whose layers are alike")
    return {
        **_qwen3(text),
        "intermediate": 0,
        "experts": int(text["num_experts"]),
        "experts_per_token": int(text["num_experts_per_tok"]),
        "expert_intermediate": int(text["moe_intermediate_size"]),
    }


def _gpt_oss(text: Mapping[str, Any]) -> dict[str, Any]:
    layers = int(text["num_hidden_layers"])
    listed = _listed_windows(text) if text.get("layer_types") else None
    alternating = {
        "sliding_window": int(text.get("sliding_window") or 128),
        "windowed": tuple(n % 2 == 0 for n in range(layers)),
    }
    return {
        "head_dim": int(text.get("head_dim") or 64),
        "intermediate": 0,
        "experts": int(text["num_local_experts"]),
        "experts_per_token": int(text["num_experts_per_tok"]),
        "expert_intermediate": int(text["intermediate_size"]),
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "router_bias": True,
        "sinks": True,
        **(alternating if listed is None else listed),
    }


def _deepseek(text: Mapping[str, Any]) -> dict[str, Any]:
    latent = Latent(
        query_rank=int(text.get("q_lora_rank") or 0),
        kv_rank=int(text["kv_lora_rank"]),
        nope_dim=int(text["qk_nope_head_dim"]),
        rope_dim=int(text["qk_rope_head_dim"]),
        value_dim=int(text["v_head_dim"]),
    )
    return {
        "head_dim": latent.nope_dim + latent.rope_dim,
        "latent": latent,
        "experts": int(text["n_routed_experts"]),
        "experts_per_token": int(text["num_experts_per_tok"]),
        "expert_intermediate": int(text["moe_intermediate_size"]),
        "shared_experts": int(text.get("n_shared_experts") or 0),
        "first_dense": int(text.get("first_k_dense_replace", 0)),
    }


_ARCHITECTURES: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
