"""Models by their dimensions: presets, Hugging Face configurations, and what the dimensions imply.

Standard library only. A parameter count is exact and follows the module tree of the named architecture.
Nothing is derived that a configuration states by itself: `head_dim` is hidden / heads only where the
architecture's own class defines it so.
"""

from tracekit.models.config import Latent, ModelConfig, windowed_layers
from tracekit.models.counts import (
    ITEM_BYTES,
    Parameters,
    attention_parameters,
    expected_active_experts,
    kv_bytes_per_token,
    kv_elements_per_token,
    parameters,
    weight_bytes,
)
from tracekit.models.huggingface import CONFIG, from_hf_config, read_hf_config
from tracekit.models.presets import preset, presets, resolve

__all__ = [
    "CONFIG",
    "ITEM_BYTES",
    "Latent",
    "ModelConfig",
    "Parameters",
    "attention_parameters",
    "expected_active_experts",
    "from_hf_config",
    "kv_bytes_per_token",
    "kv_elements_per_token",
    "parameters",
    "preset",
    "presets",
    "read_hf_config",
    "resolve",
    "weight_bytes",
    "windowed_layers",
]
