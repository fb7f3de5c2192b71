"""Device strings and properties as real captures carry them."""

import pytest

from tracekit.roofline import load_devices, match_device, pick_device
from tracekit.tables import DeviceProperties

DEVICES = load_devices()


def device(
    name: str | None,
    capability: tuple[int, int] | None = None,
    sms: int | None = None,
    memory: float | None = None,
) -> DeviceProperties:
    major, minor = capability or (None, None)
    return DeviceProperties(0, name, major, minor, sms, None if memory is None else int(memory))


@pytest.mark.parametrize(
    ("properties", "key", "how"),
    [
        (device("NVIDIA H100 80GB HBM3", (9, 0), 132, 85018279936), "h100-sxm5-80gb", "exact"),
        (device("NVIDIA A100-SXM4-40GB", (8, 0), 108, 42481549312), "a100-sxm4-40gb", "exact"),
        (device("NVIDIA A100-PG509-200", (8, 0), 108, 42505273344), "a100-sxm4-40gb", "exact"),
        (device("NVIDIA A100 80GB PCIe", (8, 0), 108, 84987740160), "a100-pcie-80gb", "exact"),
        (device("Tesla V100-DGXS-32GB", (7, 0), 80, 34084028416), "v100-sxm2-32gb", "exact"),
        (device("NVIDIA B200", (10, 0), 148, 191503138816), "b200-sxm", "exact"),
        (device("NVIDIA GeForce RTX 4090", (8, 9), 128, 25393692672), "rtx-4090", "exact"),
        (device("NVIDIA GeForce RTX 3060", (8, 6), 28, 12487294976), "rtx-3060-12gb", "exact"),
        (device("NVIDIA GeForce RTX 3080", (8, 6), 68, 10736893952), "rtx-3080-10gb", "exact"),
        (device("AMD Instinct MI300X", (9, 4), 304, 206141652992), "mi300x", "exact"),
        (device("AMD Instinct MI300X VF", (9, 4), 304, 205571227648), "mi300x", "exact"),
        (device("AMD Instinct MI210", (9, 0), 104, 68702699520), "mi210", "exact"),
        (device("AMD Instinct MI350X", None, 256, None), "mi350x", "exact"),
        (device("nvidia_h100_80gb_hbm3"), "h100-sxm5-80gb", "alias"),
        (device("NVIDIA A100-PCIe-40GB"), "a100-pcie-40gb", "alias"),
        (device("H200"), "h200-sxm", "alias"),
        (device("AMD Instinct MI325X OAM"), "mi325x", "alias"),
        (device("", (9, 4), 304, 206141652992), "mi300x", "properties"),
        (device(None, (9, 4), 304, 206141652992), "mi300x", "properties"),
        (device("AMD Radeon Graphics", (9, 0), 104, 68702699520), "mi210", "properties"),
    ],
)
def test_real_device_strings_find_their_row(properties: DeviceProperties, key: str, how: str) -> None:
    found = match_device(properties, DEVICES)
    assert found.row is not None
    assert (found.row.key, found.how) == (key, how)


def test_every_name_of_the_table_finds_its_own_row_or_says_why_not() -> None:
    for row in DEVICES:
        for name in row.names:
            major, minor = row.capability or (None, None)
            memory = row.memory_bytes or (row.memory_gb or 0) * 1e9
            found = match_device(
                device(name, row.capability and (major, minor), row.sm_count, memory), DEVICES
            )
            assert found.row == row, (name, found.note)


def test_mi250_and_mi250x_share_a_name_and_are_told_apart_by_their_units() -> None:
    name = "AMD Instinct MI250X / MI250"
    small = match_device(device(name, (9, 0), 104, 68702699520), DEVICES)
    large = match_device(device(name, (9, 0), 110, 68702699520), DEVICES)
    assert small.row is not None
    assert large.row is not None
    assert (small.row.key, large.row.key) == ("mi250-die", "mi250x-die")
    assert match_device(device(name), DEVICES).row is None


def test_the_anonymous_gfx90a_part_keeps_only_the_figures_its_candidates_share() -> None:
    found = match_device(device("AMD Radeon Graphics", (9, 0), 104, 68702699520), DEVICES)
    assert found.row is not None
    assert found.row.link is None
    assert "MI250" in found.note


def test_a_mig_slice_is_scaled_and_its_bandwidth_is_unknown() -> None:
    found = match_device(device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", (8, 0), 42, 20e9), DEVICES)
    assert found.row is not None
    assert found.row.flops["bf16"] == pytest.approx(312e12 * 42 / 108)
    assert found.row.dram is None
    assert "42 of the 108 SMs" in found.note


def test_a_mig_slice_of_unknown_size_has_no_ceiling() -> None:
    assert match_device(device("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), DEVICES).row is None


def test_plain_h100_is_decided_by_memory() -> None:
    of_96 = match_device(device("NVIDIA H100", (9, 0), 132, 102.09e9), DEVICES)
    assert of_96.row is not None
    assert of_96.row.dram is None
    of_80 = match_device(device("NVIDIA H100", (9, 0), 132, 85.02e9), DEVICES)
    assert of_80.row is not None
    assert (of_80.row.key, of_80.how) == ("h100-sxm5-80gb", "properties")


def test_h800_of_another_memory_size_has_no_bandwidth() -> None:
    found = match_device(device("NVIDIA H800", (9, 0), 132, 143771 * 2**20), DEVICES)
    assert found.row is not None
    assert found.row.flops["bf16"] == 989.4e12
    assert found.row.dram is None


@pytest.mark.parametrize(
    "properties",
    [
        device("NVIDIA RTX A6000", (8, 6), 84, 48e9),  # the properties of an A40, and faster memory
        device("NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 48e9),
        device("NVIDIA H100 80GB HBM3", (8, 0), 132, 85e9),  # Hopper cannot report 8.0
        device("NVIDIA L4", (8, 9), 60, 24e9),  # more SMs than an L4 has
        device("", (9, 9), 10, 1e9),
        device("", None, None, None),
        device("", (8, 9), 142, 51.5e9),  # L40 or L40S: twice apart in tensor rate
    ],
)
def test_another_device_is_never_taken(properties: DeviceProperties) -> None:
    found = match_device(properties, DEVICES)
    assert found.row is None
    assert found.how is None
    assert found.note


def test_an_index_out_of_range_means_the_one_listed_device() -> None:
    one = (device("AMD Instinct MI300X", (9, 4), 304, 206e9),)
    assert pick_device(one, 9) == one[0]


def test_an_index_out_of_range_means_nothing_where_the_listed_differ() -> None:
    two = (DeviceProperties(0, "NVIDIA L4"), DeviceProperties(1, "Tesla T4"))
    assert pick_device(two, 1) == two[1]
    assert pick_device(two, 7) is None
    assert pick_device((), 0) is None
