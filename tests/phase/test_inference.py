"""Phases where no text states them: each rule on the smallest trace that it speaks on, and where it must be silent."""

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.link import link
from tracekit.phase import Phased, label, wanted_frames
from tracekit.phase.votes import combine, corroborate
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.taxonomy import name_families

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
RUNNER = "vllm/v1/worker/gpu_model_runner.py"
BATCH = "vllm/v1/worker/gpu_input_batch.py"


def phased(trace: TraceBuilder, path: str = "trace.json") -> Phased:
    (capture,) = read_stream(from_bytes(path, trace.text()), wanted_frames())
    linked = link(capture)
    return label(name_families(linked.kernels), capture, linked)


def phases(found: Phased) -> list[str]:
    return found.steps["phase"].astype(str).tolist()


def forward(trace: TraceBuilder, ts: float, query: int, key: int) -> TraceBuilder:
    """One forward pass of a decoder with one layer, attention over [batch, heads, tokens, width]."""
    trace.op("aten::embedding", ts, 2, dims=[[32000, 64], [1, query], [], [], []])
    shape = [[1, 4, query, 16], [1, 4, key, 16], [1, 4, key, 16], [], [], []]
    trace.op("aten::scaled_dot_product_attention", ts + 3, 2, dims=shape)
    trace.launched(GEMM, launch_ts=ts + 6, ts=ts + 7, dur=1)
    return trace.op("aten::argmax", ts + 8, 1, dims=[[1, 32000], [], []])


def test_a_generation_loop_is_cut_at_its_embeddings_and_told_by_the_length_of_its_queries() -> None:
    trace = forward(TraceBuilder(), 0, query=512, key=512)
    forward(trace, 20, query=1, key=513)
    forward(trace, 40, query=1, key=514)
    found = phased(trace)
    assert phases(found) == ["prefill", "decode", "decode"]
    assert found.steps["evidence"].astype(str).unique().tolist() == ["attention_shapes"]
    assert "steps_inferred" in [note.code for note in found.quality]


def test_attention_without_tokens_is_no_language_model() -> None:
    trace = TraceBuilder()
    for ts in (0, 20):
        shape = [[25, 16, 196, 80], [25, 16, 196, 80], [25, 16, 196, 80], [], [], []]
        trace.op("aten::scaled_dot_product_attention", ts, 5, dims=shape)
        trace.launched("void flash::flash_fwd_kernel<int>()", launch_ts=ts + 6, ts=ts + 7, dur=1)
    found = phased(trace)
    assert phases(found) == []
    assert found.kernels["phase"].astype(str).tolist() == ["unknown", "unknown"]
    (note,) = [note for note in found.quality if note.code == "no_steps"]
    assert "0 steps found; tried" in note.message


def test_upsampling_is_not_sampling() -> None:
    trace = (
        TraceBuilder().op("aten::scaled_dot_product_attention", 0, 5).op("aten::upsample_bilinear2d", 6, 2)
    )
    trace.launched(GEMM, launch_ts=9, ts=10, dur=1)
    assert phases(phased(trace)) == []


def server_step(rows: int, tokens: int, carried: int | None) -> TraceBuilder:
    """One step of a serving engine: packed attention over tokens, the head over one row a request."""
    trace = TraceBuilder()
    if carried is not None:
        trace.op("aten::select", 0, 1, dims=[[carried, 1], [], []])
        trace.op("aten::copy_", 2, 1, dims=[[carried], [carried], []])
    heads = [[tokens, 32, 128], [tokens, 8, 128], [tokens, 8, 128], [tokens, 32, 128], [], [], [], [0]]
    trace.op("vllm::unified_attention_with_output", 5, 2, dims=heads)
    trace.op("aten::mm", 9, 1, dims=[[rows, 4096], [4096, 128256]])
    return trace.launched(GEMM, launch_ts=10, ts=11, dur=1)


@pytest.mark.parametrize(
    ("rows", "tokens", "carried", "phase"),
    [
        (32, 32, 32, "decode"),  # as many tokens as requests
        (1, 888, None, "prefill"),  # one request, many tokens
        (46, 8192, 37, "mixed"),  # 37 of the 46 go on from the token that they sampled last
    ],
)
def test_tokens_in_the_layers_against_rows_of_the_head(
    rows: int, tokens: int, carried: int | None, phase: str
) -> None:
    assert phases(phased(server_step(rows, tokens, carried))) == [phase]


@pytest.mark.parametrize(
    ("new", "scheduled", "phase"),
    [(3, 3, "prefill"), (8, 46, "mixed"), (0, 32, "decode")],
)
def test_frames_that_are_called_once_a_request(new: int, scheduled: int, phase: str) -> None:
    trace = TraceBuilder().frame(f"{RUNNER}(3380): execute_model", 0, 1000)
    for number in range(new):
        trace.frame(f"{BATCH}(304): add_request", 1 + number, 0.5)
    for number in range(scheduled):
        trace.frame(f"{BATCH}(443): update_req_spec_token_ids", 100 + number, 0.5)
    trace.launched(GEMM, launch_ts=500, ts=501, dur=1)
    found = phased(trace)
    assert phases(found) == [phase]
    assert found.steps["engine"].astype(str).tolist() == ["vllm"]


def test_a_dummy_run_is_no_decode() -> None:
    trace = TraceBuilder().frame(f"{RUNNER}(4712): _dummy_run", 0, 100)
    trace.launched("kernel_unified_attention_3d", launch_ts=50, ts=51, dur=1)
    assert phased(trace).kernels["phase"].astype(str).tolist() == ["other"]


def test_a_decisive_kernel_is_spread_to_the_whole_replay() -> None:
    trace = TraceBuilder()
    for ts in (0, 500):
        replay = trace.launch(ts, name="hipGraphLaunch")
        for number in range(39):
            trace.kernel(GEMM, ts + 10 + number, 1, replay)
        trace.kernel("void paged_attention_ll4mi_QKV_mfma16_kernel<0>()", ts + 60, 5, replay)
        trace.kernel("void vllm::reshape_and_cache_flash_kernel<int>()", ts + 70, 1, replay)
    found = phased(trace)
    assert phases(found) == ["decode", "decode"]
    assert found.kernels["phase"].astype(str).eq("decode").all()
    assert found.steps["evidence"].astype(str).tolist() == ["decisive_kernels+one_graph_replay"] * 2


TILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x{}x256_MI16x16x1"


@pytest.mark.parametrize(
    ("tile", "evidence", "confidence"),
    [(32, "gemm_tile+one_graph_replay", 0.82), (128, "one_graph_replay", 0.6)],  # 1 - 0.4 x 0.45
)
def test_tiles_for_few_tokens_support_a_decode(tile: int, evidence: str, confidence: float) -> None:
    trace = TraceBuilder()
    for ts in (0, 500):
        replay = trace.launch(ts, name="hipGraphLaunch")
        for number in range(40):
            trace.kernel(TILE.format(tile), ts + 10 + number, 1, replay)
        trace.kernel("void vllm::reshape_and_cache_flash_kernel<int>()", ts + 60, 1, replay)
    found = phased(trace)
    assert found.steps["evidence"].astype(str).tolist() == [evidence] * 2
    assert found.steps["confidence"].tolist() == pytest.approx([confidence] * 2)


def test_tiles_alone_name_no_phase() -> None:
    only = pd.DataFrame({"step": [0, 1], "phase": "decode", "confidence": 0.55, "word": "gemm_tile"})
    assert corroborate(votes(("prefill", 0.6, "a")), only)["step"].tolist() == [0, 0]


def test_prefill_and_decode_kernels_in_one_step_make_it_mixed() -> None:
    trace = TraceBuilder().frame(f"{RUNNER}(10): execute_model", 0, 100)
    trace.launched("void flashinfer::BatchDecodeWithPagedKVCacheKernel<int>()", launch_ts=5, ts=6, dur=5)
    trace.launched("void flashinfer::BatchPrefillWithRaggedKVCacheKernel<int>()", launch_ts=9, ts=12, dur=5)
    assert phases(phased(trace)) == ["mixed"]


def generation(prompts: tuple[float, ...], tokens: int, weights: tuple[int, ...] = ()) -> TraceBuilder:
    """Steps that take the time given for each prompt, and 10 us for each token; with shapes where sizes are given."""
    trace, at = TraceBuilder(), 0.0
    for prompt in prompts:
        for duration in (prompt, *[10.0] * tokens):
            for width in weights[-1:] if duration == prompt else weights[:1]:
                trace.op("aten::mm", at + 3, 0.5, dims=[[8, width], [width, 4 * width]])
            trace.op("aten::embedding", at, 1).op("aten::scaled_dot_product_attention", at + 2, 1)
            trace.launched(GEMM, launch_ts=at + 4, ts=at + 5, dur=duration)
            at += duration + 10
    return trace


def test_steps_of_one_stack_that_take_many_times_as_long_were_prompts() -> None:
    found = phased(generation((200, 220), tokens=4))
    assert phases(found) == (["prefill"] + ["decode"] * 4) * 2
    assert found.steps["confidence"].max() < 0.8  # inferred from time alone, it must stay unsure


@pytest.mark.parametrize("trace", [generation((10,), tokens=8), generation((200,), tokens=0)])
def test_steps_that_are_alike_or_alone_stay_unknown(trace: TraceBuilder) -> None:
    assert set(phases(phased(trace))) == {"unknown"}


@pytest.mark.parametrize(("weights", "told"), [((64,), {"prefill", "decode"}), ((64, 96), {"unknown"})])
def test_two_models_that_take_turns_are_no_prefill_and_decode(
    weights: tuple[int, ...], told: set[str]
) -> None:
    assert set(phases(phased(generation((200, 220), tokens=4, weights=weights)))) == told


def test_a_training_capture_has_no_prefill_and_no_decode() -> None:
    trace = forward(TraceBuilder(), 0, query=512, key=512)
    trace.op("autograd::engine::evaluate_function: MmBackward0", 20, 10)
    trace.launched(GEMM, launch_ts=25, ts=26, dur=1)
    trace.annotation("Optimizer.step#AdamW.step", 40, 10)
    trace.launched(GEMM, launch_ts=45, ts=46, dur=1)
    found = phased(trace)
    assert found.kernels["phase"].astype(str).tolist() == ["other"] * 3
    assert "training" in [note.code for note in found.quality]


@pytest.mark.parametrize(
    "frame",
    ["diffusers/models/transformers/transformer_sd3.py(326): forward", "nn.Module: SD3Transformer2DModel_0"],
)
def test_a_diffusion_pipeline_has_no_prefill_though_it_attends_like_one(frame: str) -> None:
    bare = TraceBuilder()
    marked = TraceBuilder().frame("diffusers/pipelines/flux/pipeline_flux.py(311): encode_prompt", 0, 10)
    for step in range(3):
        forward(bare, 20 * step, query=512, key=512)
        forward(marked.frame(frame, 20 * step + 10, 10) if step else marked, 20 * step, query=512, key=512)
    assert set(phases(phased(bare))) == {"prefill"}
    found = phased(marked)
    assert set(found.kernels["phase"].astype(str)) == {"other"}
    assert set(found.steps["evidence"].astype(str)) == {"diffusion"}
    assert set(found.steps["engine"].astype(str)) == {"diffusers"}


@pytest.mark.parametrize(
    ("op", "dims", "steps"),
    [
        ("aten::group_norm", [2, 320, 64, 64], 0),
        ("aiter::_groupnorm_run", [1, 512, 32, 32], 0),
        ("aten::upsample_nearest2d", [1, 512, 32, 32], 0),
        ("aten::group_norm", [8, 4096], 1),  # over rows of tokens: a layer of some language models
    ],
)
def test_what_makes_pictures_has_neither_prefill_nor_decode(op: str, dims: list[int], steps: int) -> None:
    trace = forward(TraceBuilder(), 0, query=512, key=512)
    trace.op(op, 30, 2, dims=[dims, [], [], [], []])
    assert len(phased(trace).steps) == steps


@pytest.mark.parametrize(
    ("path", "phase", "confidence"),
    [
        ("1780000000.5-TP-0-DECODE.trace.json", "decode", 0.8),
        ("prefill-worker-1780000000.5-TP-0.trace.json", "prefill", 0.9),
        (
            "prefill-worker-1780000000.5-TP-0-DECODE.trace.json",
            "decode",
            0.8,
        ),  # the stage says more than the role
    ],
)
def test_the_stage_or_role_in_a_file_name_is_weak_evidence(path: str, phase: str, confidence: float) -> None:
    trace = TraceBuilder().frame("/x/sglang/srt/managers/scheduler.py(1): run_batch", 0, 100)
    trace.launched(GEMM, launch_ts=5, ts=6, dur=1)
    (step,) = (
        phased(trace, path).steps[["phase", "confidence", "evidence"]].astype(object).to_numpy().tolist()
    )
    assert step == [phase, confidence, "file_name"]


def test_sampling_beside_a_forward_span_belongs_to_its_step() -> None:
    trace = TraceBuilder().annotation("forward_cudagraph", 0, 100).annotation("sampling_logits", 110, 20)
    trace.launched(GEMM, launch_ts=5, ts=6, dur=1).launched("k", launch_ts=115, ts=116, dur=1)
    found = phased(trace)
    assert found.kernels["phase"].astype(str).tolist() == ["decode", "decode"]
    assert found.kernels["phase_evidence"].astype(str).tolist() == ["engine_span", "post_step"]
    assert found.steps["engine"].astype(str).tolist() == ["lmdeploy"]


def test_an_engine_is_recognised_by_its_frames_before_its_kernels() -> None:
    trace = TraceBuilder().frame("/x/sglang/srt/managers/scheduler.py(1): run_batch", 0, 100)
    trace.launched("void vllm::rotary_embedding_kernel<float>()", launch_ts=5, ts=6, dur=1)
    assert phased(trace).steps["engine"].astype(str).tolist() == ["sglang"]


def test_the_text_of_a_step_names_no_engine() -> None:
    trace = TraceBuilder().annotation("execute_context_0(0)_generation_8(8)", 0, 10)
    trace.launched(GEMM, launch_ts=5, ts=6, dur=1)
    assert phased(trace).steps["engine"].isna().all()


def votes(*rows: tuple[str, float, str]) -> pd.DataFrame:
    return pd.DataFrame([(0, *row) for row in rows], columns=["step", "phase", "confidence", "word"])


def test_agreeing_rules_strengthen_each_other() -> None:
    won = combine(votes(("decode", 0.6, "a"), ("decode", 0.5, "b"))).iloc[0]
    # 1 - (1 - 0.6)(1 - 0.5) = 0.8
    assert (won["phase"], round(won["confidence"], 9), won["evidence"], won["conflict"]) == (
        "decode",
        0.8,
        "a+b",
        False,
    )


def test_disagreeing_rules_weaken_the_winner_and_are_a_conflict() -> None:
    won = combine(votes(("decode", 0.9, "a"), ("prefill", 0.6, "b"))).iloc[0]
    # 0.9 - 0.6 / 2 = 0.6
    assert (won["phase"], round(won["confidence"], 9), won["conflict"]) == ("decode", 0.6, True)


def test_what_is_inferred_is_never_certain() -> None:
    assert combine(votes(("decode", 0.9, "a"), ("decode", 0.9, "b"))).iloc[0]["confidence"] == 0.95


def test_after_an_empty_iteration_new_requests_are_a_prefill_not_a_mixed_step() -> None:
    """Two requests of 332 tokens each: right after a decode they may be one more and one that goes on."""

    def trace(*, emptied: bool) -> TraceBuilder:
        built = TraceBuilder()
        for ts, tokens, rows in ((0, 1, 1), (5000, 664, 2)):
            heads = [[tokens, 8, 64], [tokens, 2, 64], [tokens, 2, 64], [tokens, 8, 64], [], [], [], [0]]
            built.op("vllm::unified_attention_with_output", ts, 2, dims=heads)
            built.launched(GEMM, launch_ts=ts + 4, ts=ts + 5, dur=1)
            built.op("_C::fused_gumbel_argmax", ts + 6, 1, dims=[[rows, 4096], [rows]])
        return built.op("aten::slice", 2000, 1, dims=[[16]]) if emptied else built

    assert phases(phased(trace(emptied=True))) == ["decode", "prefill"]
    assert phases(phased(trace(emptied=False))) == ["decode", "mixed"]


@pytest.mark.parametrize(("finished", "phase"), [(1, "prefill"), (0, "mixed")])
def test_requests_that_have_left_the_batch_do_not_go_on(finished: int, phase: str) -> None:
    trace = TraceBuilder()
    for step, (new, done) in enumerate([(1, 0), (0, 0), (1, finished)]):
        at = 100 * step
        trace.frame(f"{RUNNER}(3380): execute_model", at, 50)
        for number in range(new):
            trace.frame(f"{BATCH}(304): add_request", at + 1 + number, 0.5)
        for number in range(done):
            trace.frame(f"{BATCH}(523): remove_request", at + 5 + number, 0.5)
        trace.launched(GEMM, launch_ts=at + 20, ts=at + 21, dur=1)
    assert phases(phased(trace)) == ["prefill", "decode", phase]


def test_kernels_without_any_launch_are_cut_where_tokens_are_sampled() -> None:
    trace, at = TraceBuilder(), 0
    for attention in (
        "flashinfer::BatchPrefillWithRaggedKVCacheKernel",
        "flashinfer::BatchDecodeWithPagedKVCacheKernel",
    ):
        for name in (
            "void vllm::rotary_embedding_kernel<int>()",
            f"void {attention}<int>()",
            GEMM,
            "_gumbel_sample_kernel",
        ):
            trace.kernel(name, at, 5)
            at += 10
    found = phased(trace)
    assert phases(found) == ["prefill", "decode"]
    assert found.kernels["phase"].astype(str).tolist() == ["prefill"] * 4 + ["decode"] * 4
