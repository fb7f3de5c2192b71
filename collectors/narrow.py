"""Products of 8-bit floats: whether a device multiplies them, and how fast."""

import torch
from torch import Tensor

from collectors.machine import Machine

# Those that torch lets multiply fp8: `_scaled_mm_allowed_device` of aten/src/ATen/native/cuda/ScaledBlas.cpp.
_LEAST_CUDA = (8, 9)
_PROBE = 64
_ROCM = ("gfx942", "gfx950", "gfx1200", "gfx1201")


def why_no_fp8(device: torch.device, machine: Machine) -> str | None:
    """Why fp8 products are not measured on a device; None where they can be."""
    if not hasattr(torch, "_scaled_mm"):
        return "this PyTorch has no scaled product"
    if device.type == "cpu":
        return "timed on GPUs alone"
    target = _rocm_target(device)
    if target is not None:
        return _refused(device) if target.startswith(_ROCM) else f"{target} multiplies no fp8"
    major, _, minor = machine.capability.partition(".")
    known = major.isdigit() and minor.isdigit()
    if known and (int(major), int(minor)) >= _LEAST_CUDA:
        return _refused(device)
    return f"compute capability {machine.capability} multiplies no fp8"


def _refused(device: torch.device) -> str | None:
    """What torch says against a small product on the device; None where it makes it."""
    try:
        left, right = (torch.ones(rows, _PROBE, device=device).to(fp8_dtype(device)) for rows in (1, _PROBE))
        scaled_product(left, right)
    except (RuntimeError, NotImplementedError) as error:
        return f"PyTorch refuses it: {str(error).strip().splitlines()[0][:120]}"
    return None


def fp8_dtype(device: torch.device) -> torch.dtype:
    """The fp8 type that a device multiplies: CDNA 3 has one of its own, without negative zero."""
    target = _rocm_target(device)
    return (
        torch.float8_e4m3fnuz if target is not None and target.startswith("gfx942") else torch.float8_e4m3fn
    )


def scaled_product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right.T` of fp8 operands [M, K] and [N, K] with scales of one; bf16 [M, N]."""
    one = torch.ones((), dtype=torch.float32, device=left.device)
    return torch._scaled_mm(left, right.t(), one, one, out_dtype=torch.bfloat16)  # noqa: SLF001 - torch's only fp8 product


def _rocm_target(device: torch.device) -> str | None:
    """The gfx target of a ROCm device; None on others."""
    if device.type != "cuda" or torch.version.hip is None:
        return None
    return str(torch.cuda.get_device_properties(device).gcnArchName)
