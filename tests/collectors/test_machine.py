"""The machine read from a system's own files, and the memory that a workload takes."""

import os
from pathlib import Path

import pytest

from tracekit.errors import UnsupportedError
from tracekit.formats import Workload
from tracekit.models import preset

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

WORKLOAD = Workload(
    model="Llama-3.1-8B", dtype="bf16", kv_dtype="bf16", phases=("prefill", "decode"), batch=2, prompt_len=512,
    kv_len=1000, decode_steps=24, warmup=0, repeats=1, seed=0, device="cpu", attention="sdpa",
)  # fmt: skip


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text + "\n")


def caches(root: Path, cpu: int, last: str, shared: str) -> None:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache"
    levels = (
        ("1", "Data", "32K", str(cpu)),
        ("1", "Instruction", "32K", str(cpu)),
        ("3", "Unified", last, shared),
    )
    for index, values in enumerate(levels):
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            put(root, f"{folder}/index{index}/{name}", value)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_a_last_level_cache_counts_once_however_many_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collectors import machine  # noqa: PLC0415 - needs torch, which may be absent

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    for cpu, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3")):
        caches(tmp_path, cpu, "32768K", shared)
    assert machine.last_level_cache(tmp_path) == 2 * 32 * 1024 * 1024


def test_a_system_that_does_not_say_has_no_known_cache(tmp_path: Path) -> None:
    from collectors import machine  # noqa: PLC0415 - as above

    assert machine.last_level_cache(tmp_path) is None


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("flags : fma avx512_bf16", True),
        ("flags : fma avx2", False),
        ("Features : asimd bf16", True),
        ("", False),
    ],
)
def test_bf16_is_native_where_the_cpu_says_so(tmp_path: Path, flags: str, native: bool) -> None:
    from collectors import machine  # noqa: PLC0415 - as above

    put(tmp_path, "proc/cpuinfo", f"model name : A CPU\n{flags}")
    assert machine.is_native("bf16", tmp_path) is native
    assert machine.is_native("fp32", tmp_path)
    assert machine.cpu_name(tmp_path) == "A CPU"


def test_a_control_group_limits_the_memory(tmp_path: Path) -> None:
    from collectors import machine  # noqa: PLC0415 - as above

    put(tmp_path, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB")
    cpu = torch.device("cpu")
    assert machine.available_memory(cpu, tmp_path) == 8000 * 1024
    put(tmp_path, "sys/fs/cgroup/memory.max", "5000000")
    put(tmp_path, "sys/fs/cgroup/memory.current", "1000000")
    assert machine.available_memory(cpu, tmp_path) == 4_000_000
    put(tmp_path, "sys/fs/cgroup/memory.max", "max")
    assert machine.available_memory(cpu, tmp_path) == 8000 * 1024


def test_weights_and_cache_are_estimated_from_the_dimensions() -> None:
    from collectors.memory import estimate  # noqa: PLC0415 - as above

    needed = estimate(preset("Llama-3.1-8B"), WORKLOAD)
    assert needed.weights == 2 * 8_030_261_248
    # Two requests: 512 tokens of the prefill and 1000 + 24 of decode, 131072 bytes each.
    assert needed.kv_cache == 2 * (512 + 1024) * 131_072


def test_what_would_fit_is_named() -> None:
    from collectors.memory import check, estimate  # noqa: PLC0415 - as above

    config = preset("Llama-3.1-8B")
    with pytest.raises(UnsupportedError) as caught:
        check(config, WORKLOAD, estimate(config, WORKLOAD), free=10_000_000_000)
    assert "weights 16.1 GB" in caught.value.message
    layers = int(caught.value.hint.split()[1])
    check(
        config.truncated(layers), WORKLOAD, estimate(config.truncated(layers), WORKLOAD), free=10_000_000_000
    )
    more = config.truncated(layers + 1)
    with pytest.raises(UnsupportedError):
        check(more, WORKLOAD, estimate(more, WORKLOAD), free=10_000_000_000)


def test_a_model_that_no_layer_of_fits_says_so() -> None:
    from collectors.memory import check, estimate  # noqa: PLC0415 - as above

    config = preset("Llama-3.1-405B")
    with pytest.raises(UnsupportedError) as caught:
        check(config, WORKLOAD, estimate(config, WORKLOAD), free=1_000_000_000)
    assert "smaller --model" in caught.value.hint


def test_the_default_model_grows_past_the_caches() -> None:
    from collectors.choices import CPU_MODEL, choose  # noqa: PLC0415 - as above
    from collectors.machine import Machine  # noqa: PLC0415 - as above
    from collectors.sweep import points  # noqa: PLC0415 - as above
    from tracekit.formats import CollectRequest  # noqa: PLC0415 - beside the others
    from tracekit.models import parameters  # noqa: PLC0415 - as above

    request = CollectRequest(Path("unused"))
    cpu = torch.device("cpu")
    for cache in (32 << 20, 256 << 20):
        machine = Machine("cpu", "A CPU", 2, cache, 64 << 30, "AVX2")
        choice = choose(request, points(request)[0], cpu, machine)
        config, workload, notes = choice.config, choice.workload, choice.notes
        read_by_a_step = 4 * parameters(config).active
        assert read_by_a_step >= max(256_000_000, 2 * cache)
        assert (workload.model, workload.dtype, notes) == (CPU_MODEL, "fp32", [])


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system has no load average")
def test_a_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    from collectors import machine  # noqa: PLC0415 - needs torch, which may be absent

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.0, 0.0))
    assert machine.busy_note() is None
    monkeypatch.setattr(os, "getloadavg", lambda: (5.4, 0.0, 0.0))
    assert "load 5.4 on 2 cores" in (machine.busy_note() or "")
