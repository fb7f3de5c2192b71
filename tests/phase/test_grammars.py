"""What engines write into traces, and what tracekit reads from it: every row of data/engines on its own example."""

from pathlib import Path

import pytest

from tracekit.errors import RegistryError
from tracekit.phase.grammar import (
    COUNTS,
    FRAME_KINDS,
    Rule,
    phase_of_counts,
    place_of_file,
    read_name,
    rules,
    wanted_frames,
)
from tracekit.tables import Phase

ANNOTATIONS = tuple(rule for rule in rules() if rule.kind not in FRAME_KINDS | {"file", "engine"})
ROWS = [pytest.param(rule, id=rule.row.key) for rule in rules()]
COUNTED = [pytest.param(rule, id=rule.row.key) for rule in ANNOTATIONS if "expect" in rule.row.values]


def same_field(rule: Rule) -> tuple[Rule, ...]:
    """The rules that compete with this one for a name."""
    if rule.kind in FRAME_KINDS or rule.kind in {"file", "engine"}:
        return tuple(other for other in rules() if other.kind == rule.kind)
    return ANNOTATIONS


@pytest.mark.parametrize("rule", ROWS)
def test_an_example_matches_its_own_row_first(rule: Rule) -> None:
    reading = read_name(rule.row.text("example"), same_field(rule))
    assert reading is not None
    assert reading.rule is rule
    assert rule.row.text("source")


@pytest.mark.parametrize("rule", COUNTED)
def test_an_example_gives_the_counts_and_the_phase_in_its_row(rule: Rule) -> None:
    reading = read_name(rule.row.text("example"), ANNOTATIONS)
    assert reading is not None
    assert dict(reading.counts) == rule.row.values["expect"]
    assert str(reading.phase) == rule.row.text("phase")


@pytest.mark.parametrize(
    ("text", "phase", "counts"),
    [
        (
            "execute_context_0(0)_generation_8(8)",
            "decode",
            {"generation_requests": 8, "generation_tokens": 8},
        ),
        ("execute_context_7(2047)_generation_1(1)", "mixed", {"context_requests": 7, "context_tokens": 2047}),
        ("step[DECODE bs=32]", "decode", {"generation_requests": 32, "generation_tokens": 32}),
        ("step[TARGET_VERIFY bs=8 toks=40]", "verify", {"generation_requests": 8, "generation_tokens": 40}),
        ("step[DRAFT_LOOP raw_bs=7 bs=8 topk=4]", "draft", {"generation_requests": 8}),
        (
            "step[MIXED bs=5 toks=900 c=1 c_sq=896 c_sqsq=802816 c_sqsk=802816 c_sk=896 g=4 g_sq=4 g_sk=4000 forward_id=3]",
            "mixed",
            {"context_requests": 1, "context_tokens": 896, "generation_requests": 4, "generation_sk": 4000},
        ),
        (
            "[Executor] _forward_step: 2 ctx reqs, 3 gen reqs",
            "mixed",
            {"context_requests": 2, "generation_requests": 3},
        ),
        ("[Executor] _forward_step 9: 0 ctx reqs, 3 gen reqs", "decode", {"generation_requests": 3}),
        ("BatchDecodeToLastHidden num_seqs=8", "decode", {"generation_requests": 8}),
        ("DisaggPrepareKVRecv length=512", "other", {}),
        ("rejection_sample", "verify", {}),
        ("execute_new_0_cached_4", "decode", {"generation_requests": 4}),
    ],
)
def test_texts_of_engines(text: str, phase: str, counts: dict[str, int]) -> None:
    reading = read_name(text, ANNOTATIONS)
    assert reading is not None
    assert (str(reading.phase), counts) == (phase, {name: reading.counts[name] for name in counts})


@pytest.mark.parametrize(
    "text",
    [
        "BatchDecode getting requests",  # opened by the prefill action of MLC-LLM
        "ProfilerStep#6",
        "execute_context_1(512)_generation_7(7) and more",
        "execute_context_" + "9" * 30 + "(1)_generation_0(0)",  # no batch is that large
        "step[DECODE bs=" + "1" * 5000 + "]",
        "Attention_Forward",
    ],
)
def test_texts_that_state_no_step(text: str) -> None:
    assert read_name(text, ANNOTATIONS) is None


def test_a_hostile_text_is_refused_quickly() -> None:
    # A nested repetition would take exponential time on this suffix that never closes.
    assert read_name("step[MIXED bs=1" + " c_sq=1" * 60 + "!", ANNOTATIONS) is None


@pytest.mark.parametrize(
    ("requests", "tokens", "phase", "flags"),
    [
        (8, 8, Phase.DECODE, ()),
        (8, 40, Phase.VERIFY, ("tokens_exceed_requests",)),
        (8, 136, Phase.VERIFY, ("tokens_exceed_requests",)),  # 17 tokens a request: 16 drafts and one more
        (1, 2000, Phase.PREFILL, ("recompute",)),  # a preempted request that prefills again
        (8, 2007, Phase.MIXED, ("recompute",)),
    ],
)
def test_generation_with_more_tokens_than_requests(
    requests: int, tokens: int, phase: Phase, flags: tuple[str, ...]
) -> None:
    found, _, marks = phase_of_counts({"generation_requests": requests, "generation_tokens": tokens})
    assert (found, marks) == (phase, flags)


def test_a_step_without_requests_is_neither_prefill_nor_decode() -> None:
    assert phase_of_counts(dict.fromkeys(COUNTS, 0))[0] is Phase.OTHER


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("dp0_pp0_tp3_dcp0_ep3_rank3.1780000000000000000.pt.trace.json.gz", 3),
        ("engine-rank-1.1780000000000000000.pt.trace.json.gz", 1),
        ("1780000000.5-TP-2-DP-1-EXTEND.trace.json.gz", 2),
        ("trtllm-trace-1780000000-abcdef01-rank-3.json", 3),
        ("lmdeploy_profile_1.json.gz", 1),
        ("trace.json.gz", None),
    ],
)
def test_engines_name_the_rank_in_the_file(name: str, rank: int | None) -> None:
    assert place_of_file(name).get("rank") == rank


def test_only_frames_that_a_rule_reads_are_kept() -> None:
    assert wanted_frames()("vllm/v1/worker/gpu_model_runner.py(3380): execute_model")
    assert not wanted_frames()("vllm/v1/worker/gpu_model_runner.py(3087): synchronize_input_prep")
    assert not wanted_frames()("torch/nn/modules/module.py(1): _call_impl")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('kind = "riddle"\npattern = "x"', "kind 'riddle'"),
        ('kind = "counts"\npattern = "(?P<people>x)"', "people"),
        ('kind = "span"\nphase = "lunch"\npattern = "x"', "lunch"),
        ('kind = "span"\nphase = "prefill"\npattern = "("', "unterminated"),
    ],
)
def test_a_malformed_row_is_refused_by_name(tmp_path: Path, row: str, reason: str) -> None:
    folder = tmp_path / "engines"
    folder.mkdir()
    (folder / "mine.toml").write_text(f'[[row]]\nkey = "mine"\n{row}\n', encoding="utf-8")
    with pytest.raises(RegistryError, match=reason):
        rules((tmp_path,))
