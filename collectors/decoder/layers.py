"""The small parts of a block: RMSNorm, rotary embedding, gated MLP."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """x / rms(x) · weight over the last dimension."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise [..., width]."""
        return functional.rms_norm(x, self.weight.shape, self.weight, 1e-6)


class Rotary(nn.Module):
    """Rotary position embedding over the two halves of a head."""

    def __init__(self, dim: int, theta: float) -> None:
        super().__init__()
        self.dim = dim
        self.theta = theta
        self.cos = torch.empty(0)
        self.sin = torch.empty(0)

    def build(self, positions: int, dtype: torch.dtype, device: torch.device) -> None:
        """Make the tables, [positions, dim / 2]."""
        frequency = self.theta ** (-torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim)
        angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequency)
        self.cos = angle.cos().to(device=device, dtype=dtype)
        self.sin = angle.sin().to(device=device, dtype=dtype)

    def forward(self, x: Tensor, past: int) -> Tensor:
        """Rotate [requests, queries, heads, dim] at the positions past, past + 1, ..."""
        rows = slice(past, past + x.shape[1])
        cos, sin = self.cos[rows, None], self.sin[rows, None]
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) · up(x)), gate and up in one matrix."""

    def __init__(self, hidden: int, width: int, *, bias: bool) -> None:
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * width, bias=bias)
        self.down = nn.Linear(width, hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map [tokens, hidden] to [tokens, hidden]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        down: Tensor = self.down(functional.silu(gate) * up)
        return down
