"""Parameter counts and cache sizes of the presets, against totals counted on the meta device or published."""

import json
from pathlib import Path

import pytest

from tracekit.errors import UnsupportedError
from tracekit.models import (
    ModelConfig,
    expected_active_experts,
    from_hf_config,
    kv_bytes_per_token,
    parameters,
    preset,
    presets,
    resolve,
    weight_bytes,
)

# name: total and read per token at batch 1 in units of 1e9, KV-cache bytes a token in 16 bits.
KNOWN = {
    "Qwen3-0.6B": (0.596, 0.596, 114_688),
    "Llama-2-7B": (6.738, 6.607, 524_288),
    "Llama-3.1-8B": (8.030, 7.505, 131_072),
    "Mistral-7B-v0.3": (7.248, 7.114, 131_072),
    "Qwen3-8B": (8.191, 7.568, 147_456),
    "Qwen3-32B": (32.762, 31.984, 262_144),
    "Llama-3.1-70B": (70.554, 69.503, 327_680),
    "Llama-3.1-405B": (405.853, 403.752, 516_096),
    "Mixtral-8x7B": (46.703, 12.749, 131_072),
    "Qwen3-30B-A3B": (30.532, 3.042, 98_304),
    "Qwen3-235B-A22B": (235.094, 21.568, 192_512),
    "gpt-oss-20b": (20.915, 3.608, 49_152),
    "gpt-oss-120b": (116.829, 5.133, 73_728),
    "DeepSeek-V3": (671.026, 36.626, 70_272),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_preset_counts_to_its_known_total(name: str) -> None:
    config = preset(name)
    total, active, kv_bytes = KNOWN[name]
    counted = parameters(config)
    assert round(counted.total / 1e9, 3) == total
    assert round(counted.active / 1e9, 3) == active
    assert kv_bytes_per_token(config, "bf16") == kv_bytes


def test_every_preset_of_a_published_model_has_a_known_total() -> None:
    assert {name for name, config in presets().items() if config.params_total} == set(KNOWN)


def test_every_preset_names_its_source() -> None:
    assert all(config.source for config in presets().values())


def test_weight_bytes_are_parameters_times_the_item() -> None:
    assert weight_bytes(preset("Llama-3.1-8B"), "bf16") == 2 * 8_030_261_248


def test_a_tiny_model_counted_by_hand() -> None:
    # Attention 8*(2*4 + 2*1*4) + 2*4*8 = 128 + 64, MLP 3*8*16 = 384, norms 2*8: 592 a layer; two layers.
    # Final norm 8, embedding and head 10*8 each.
    config = ModelConfig("t", layers=2, hidden=8, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocab=10)
    layer = 8 * (2 * 4 + 2 * 1 * 4) + 2 * 4 * 8 + 3 * 8 * 16 + 2 * 8
    assert parameters(config).total == 2 * layer + 8 + 2 * 80


def test_head_dim_is_not_hidden_over_heads() -> None:
    config = preset("Qwen3-32B")
    assert config.head_dim == 128
    assert config.hidden // config.heads == 80


def test_batches_of_tokens_touch_more_experts() -> None:
    config = preset("Qwen3-30B-A3B")
    # 128 * (1 - (120/128)^8) and ^64
    assert round(expected_active_experts(config, 8)) == 52
    assert round(expected_active_experts(config, 64)) == 126


def test_windows_alternate_in_gpt_oss() -> None:
    config = preset("gpt-oss-20b")
    assert [config.window(layer) for layer in range(4)] == [128, None, 128, None]


def test_a_truncated_model_keeps_its_first_layers() -> None:
    config = preset("DeepSeek-V3").truncated(4)
    assert [config.is_moe(layer) for layer in range(config.layers)] == [False, False, False, True]


def test_too_many_layers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="has 36 layers, not 40"):
        preset("Qwen3-8B").truncated(40)


def test_a_shard_holds_its_part() -> None:
    shard = preset("Llama-3.1-70B").sharded(8)
    assert (shard.heads, shard.kv_heads, shard.intermediate, shard.vocab) == (8, 1, 3584, 16032)


def test_key_value_heads_are_repeated_where_there_are_more_ranks() -> None:
    assert preset("Qwen3-30B-A3B").sharded(8).kv_heads == 1


def test_an_uneven_shard_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="3 tensor-parallel ranks"):
        preset("Llama-3.1-8B").sharded(3)


def test_an_unknown_model_lists_the_presets() -> None:
    with pytest.raises(UnsupportedError) as caught:
        resolve("llama-9")
    assert "Llama-3.1-8B" in caught.value.hint


def test_names_ignore_capitals() -> None:
    assert resolve("qwen3-0.6b") == preset("Qwen3-0.6B")


def test_a_hugging_face_configuration_gives_the_same_model(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(
        '{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,'
        '"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,'
        '"tie_word_embeddings": true, "rope_theta": 1000000}'
    )
    assert parameters(resolve(str(file))) == parameters(preset("Qwen3-0.6B"))
    assert resolve(str(tmp_path)) == resolve(str(file))


def test_deepseek_and_gpt_oss_configurations_are_understood() -> None:
    deepseek = from_hf_config(
        {"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
         "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "q_lora_rank": 1536,
         "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
         "first_k_dense_replace": 3}
    )  # fmt: skip
    assert parameters(deepseek) == parameters(preset("DeepSeek-V3"))
    gpt = from_hf_config(
        {"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
         "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
         "layer_types": ["sliding_attention", "full_attention"] * 12}
    )  # fmt: skip
    assert parameters(gpt) == parameters(preset("gpt-oss-20b"))
    assert gpt.windowed == preset("gpt-oss-20b").windowed


@pytest.mark.parametrize(
    ("document", "says"),
    [({"model_type": "mamba"}, "mamba"), ({"model_type": "llama"}, "num_attention_heads")],
)
def test_a_configuration_that_is_not_understood_is_refused(document: dict[str, object], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        from_hf_config(document)


def test_the_users_rows_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        '[[row]]\nkey = "Mine"\nlayers = 1\nhidden = 8\nintermediate = 16\nheads = 2\nkv_heads = 1\nhead_dim = 4\nvocab = 10\n'
    )
    assert resolve("mine", (tmp_path,)).hidden == 8


@pytest.mark.parametrize("name", ["gpt-oss-20b", "DeepSeek-V3"])
def test_dimensions_survive_json(name: str) -> None:
    config = preset(name)
    assert ModelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
