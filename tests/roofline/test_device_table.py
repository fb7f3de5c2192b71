"""The device table against arithmetic that its figures must satisfy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tracekit.errors import RegistryError, UnsupportedError
from tracekit.roofline import choose_device, device_ceilings, find_devices, load_devices, other_memories
from tracekit.roofline.devices import Device

DEVICES = load_devices()
BY_KEY = {device.key: device for device in DEVICES}

# Dense operations a clock and SM (CU), for one dtype of each architecture, from the vendors' white papers.
OPS_PER_CLOCK = [
    ("v100-sxm2-16gb", "fp16", 1024),
    ("t4", "fp16", 1024),
    ("a100-sxm4-80gb", "bf16", 2048),
    ("a100-sxm4-80gb", "tf32", 1024),
    ("a100-sxm4-80gb", "fp32", 128),
    ("a30", "bf16", 2048),
    ("a10", "bf16", 1024),
    ("a10g", "bf16", 512),
    ("rtx-3090", "bf16", 512),
    ("rtx-3080-10gb", "bf16", 512),
    ("rtx-3060-12gb", "bf16", 512),
    ("l4", "bf16", 1024),
    ("l40", "bf16", 512),
    ("l40s", "bf16", 1024),
    ("rtx-4090", "bf16", 512),
    ("rtx-5090", "bf16", 512),
    ("h100-sxm5-80gb", "bf16", 4096),
    ("h100-pcie", "bf16", 4096),
    ("h200-sxm", "fp8", 8192),
    ("h20-96gb", "bf16", 1024),
    ("b200-sxm", "bf16", 8192),
    ("b300-sxm", "fp4", 49152),
    ("gb200", "fp8", 16384),
    ("mi210", "bf16", 1024),
    ("mi250x-die", "bf16", 1024),
    ("mi300x", "bf16", 2048),
    ("mi350x", "bf16", 4096),
    ("mi355x", "fp8", 8192),
]


def ridges() -> Iterator[tuple[str, str, float]]:
    for device in DEVICES:
        for rate in ("fp16", "bf16"):
            if rate in device.flops and device.dram:
                yield device.key, rate, device.flops[rate] / device.dram


@pytest.mark.parametrize(("key", "rate", "ops"), OPS_PER_CLOCK)
def test_peak_is_sms_times_operations_times_clock(key: str, rate: str, ops: int) -> None:
    device = BY_KEY[key]
    clock = (device.tensor_mhz or device.boost_mhz or 0) * 1e6
    assert device.flops[rate] == pytest.approx((device.sm_count or 0) * ops * clock, rel=0.02)


@pytest.mark.parametrize(("key", "rate", "ridge"), list(ridges()))
def test_ridge_of_16_bit_types_is_between_20_and_450(key: str, rate: str, ridge: float) -> None:
    # Gaudi 3 stands just outside: 8 MME x 65536 MAC x 2 x 1.6 GHz over 3.7 TB/s is 453.
    assert 20 <= ridge <= (454 if key == "gaudi-3" else 450), rate


def fp8_doubles(device: Device) -> bool:
    return "fp8" in device.flops and device.arch != "Gaudi"


@pytest.mark.parametrize("device", [d for d in DEVICES if fp8_doubles(d)], ids=lambda d: d.key)
def test_fp8_is_twice_bf16(device: Device) -> None:
    # L40S: the sheet prints 733 beside 362.05.
    assert device.flops["fp8"] == pytest.approx(2 * device.flops["bf16"], rel=0.015)


@pytest.mark.parametrize(
    "device", [d for d in DEVICES if "tf32" in d.flops and d.arch != "Gaudi"], ids=lambda d: d.key
)
def test_tf32_is_half_of_16_bit_tensor_rates(device: Device) -> None:
    assert device.flops["tf32"] == pytest.approx(device.flops["fp16"] / 2, rel=0.015)


def test_int8_was_cut_on_blackwell_ultra() -> None:
    assert BY_KEY["b300-sxm"].flops["int8"] < BY_KEY["b300-sxm"].flops["fp8"] / 25


@pytest.mark.parametrize(
    ("key", "bits", "gbit_per_pin"),
    [
        ("a100-sxm4-40gb", 5120, 2.43),
        ("a100-sxm4-80gb", 5120, 3.186),
        ("h100-sxm5-80gb", 5120, 5.2376),
        ("l4", 192, 12.5),
        ("rtx-3060-12gb", 192, 15.0),
        ("rtx-3080-10gb", 320, 19.0),
        ("rtx-4090", 384, 21.0),
        ("rtx-5090", 512, 28.0),
        ("mi210", 4096, 3.2),
        ("mi300x", 8192, 5.2),
        ("b200-sxm", 7680, 7.992),
    ],
)
def test_dram_rate_is_bus_width_times_data_rate(key: str, bits: int, gbit_per_pin: float) -> None:
    assert BY_KEY[key].dram == pytest.approx(bits * gbit_per_pin / 8 * 1e9, rel=0.01)


def test_every_row_has_sources_and_every_key_is_one_device() -> None:
    assert all(device.sources for device in DEVICES)
    assert len(BY_KEY) == len(DEVICES)


def test_figures_from_memory_are_carried_as_unverified() -> None:
    assert BY_KEY["h20-3e-141gb"].trust("dram_gb_per_s") == "unverified"
    assert device_ceilings(BY_KEY["h20-3e-141gb"]).dram.status == "unverified"
    assert BY_KEY["h100-sxm5-80gb"].trust("bf16") == "checked"


def test_a_user_row_needs_no_code_and_replaces_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "mine.toml").write_text(
        '[[row]]\nkey = "l4"\ndevice = "My L4"\nvendor = "nvidia"\narch = "Ada"\nstatus = "single"\ntflops = { bf16 = 60 }\n'
    )
    mine = {device.key: device for device in load_devices((tmp_path,))}["l4"]
    assert (mine.name, mine.flops) == ("My L4", {"bf16": 60e12})


@pytest.mark.parametrize(
    "line",
    ["tflops = { bf17 = 1 }", 'tflops = { bf16 = "fast" }', 'status_of = { bf16 = "sure" }', "tflops = 3"],
)
def test_a_malformed_row_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "mine.toml").write_text(
        f'[[row]]\nkey = "x1"\ndevice = "X1"\nvendor = "nvidia"\narch = "X"\nstatus = "single"\n{line}\n'
    )
    with pytest.raises(RegistryError, match="x1"):
        load_devices((tmp_path,))


def test_find_gives_all_rows_that_a_short_name_means() -> None:
    assert {d.key for d in find_devices("a100", DEVICES)} == {
        "a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-40gb", "a100-pcie-80gb",
    }  # fmt: skip
    assert [d.key for d in find_devices("NVIDIA H200", DEVICES)] == ["h200-sxm"]
    assert len(find_devices("AMD Instinct MI250X / MI250", DEVICES)) == 2


def test_a_short_name_is_the_common_part_and_the_note_lists_the_others() -> None:
    row, note = choose_device("h100", DEVICES)
    assert row.key == "h100-sxm5-80gb"
    assert {d.key for d in find_devices("H100", DEVICES)} == {
        "h100-sxm5-80gb", "h100-sxm-96gb", "h100-pcie", "h100-nvl",
    }  # fmt: skip
    assert "h100-sxm-96gb" in note
    assert choose_device("h100 sxm", DEVICES) == (row, "")
    assert choose_device("a100", DEVICES)[0].key == "a100-sxm4-80gb"


def test_a_drivers_own_string_is_that_part_alone() -> None:
    # Public traces report the bare name for the part of 102 GB, whose bandwidth is another one.
    assert [d.key for d in find_devices("NVIDIA H100", DEVICES)] == ["h100-sxm-96gb"]


def test_several_parts_of_which_none_is_the_common_one_are_refused_with_their_keys() -> None:
    with pytest.raises(UnsupportedError) as error:
        choose_device("AMD Instinct MI250X / MI250", DEVICES)
    assert "mi250" in error.value.hint


def test_what_could_stand_in_for_a_device_has_its_form_and_no_less_compute() -> None:
    others = other_memories("H100 SXM5 80GB", DEVICES)
    assert others["H200 SXM"] == 4.8e12
    # A PCIe card, another vendor's, and a part with a seventh of the compute.
    assert not {"H200 NVL", "MI300X", "H20-3e 141GB"} & set(others)
    assert other_memories("AMD EPYC", DEVICES) == {}


def test_find_names_near_rows_for_a_typing_error() -> None:
    with pytest.raises(UnsupportedError) as error:
        find_devices("h100-sxn5", DEVICES)
    assert "h100-sxm5-80gb" in error.value.hint
