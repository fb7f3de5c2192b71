"""Mixture of experts: each token goes to its top-k experts, each active expert multiplies its tokens once."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from collectors.decoder.layers import GatedMLP
from tracekit.models import ModelConfig


class MixtureOfExperts(nn.Module):
    """Top-k routing over gated experts; random routers spread the tokens about evenly."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        count, width = config.experts, config.expert_intermediate
        self.per_token = config.experts_per_token
        self.router = nn.Linear(config.hidden, count, bias=config.router_bias)
        self.gate_up = nn.Parameter(torch.empty(count, 2 * width, config.hidden))
        self.down = nn.Parameter(torch.empty(count, config.hidden, width))
        self.gate_up_bias = nn.Parameter(torch.empty(count, 2 * width)) if config.mlp_bias else None
        self.down_bias = nn.Parameter(torch.empty(count, config.hidden)) if config.mlp_bias else None
        shared = config.shared_experts * width
        self.shared = GatedMLP(config.hidden, shared, bias=config.mlp_bias) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        """Map [tokens, hidden] to [tokens, hidden]."""
        score, chosen = self.router(x).topk(self.per_token, dim=-1)
        weight = score.softmax(dim=-1).flatten()
        order = chosen.flatten().argsort(stable=True)
        rows = order // self.per_token
        # The host must know how many tokens each expert has: one wait for the device a layer.
        counts = chosen.flatten().bincount(minlength=self.gate_up.shape[0]).tolist()
        # index_select, not [rows]: a profiler records the sizes of its index, and of the other's not.
        mixed = self._experts(x.index_select(0, rows), counts) * weight.index_select(0, order)[:, None]
        out = torch.zeros_like(x).index_add_(0, rows, mixed)
        return out if self.shared is None else out + self.shared(x)

    def _experts(self, x: Tensor, counts: list[int]) -> Tensor:
        """Each expert on its part of the sorted tokens, [tokens · k, hidden]."""
        parts = torch.split(x, counts)
        return torch.cat([self._expert(n, part) for n, part in enumerate(parts) if part.shape[0]])

    def _expert(self, n: int, x: Tensor) -> Tensor:
        up_bias = None if self.gate_up_bias is None else self.gate_up_bias[n]
        down_bias = None if self.down_bias is None else self.down_bias[n]
        gate, up = functional.linear(x, self.gate_up[n], up_bias).chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, self.down[n], down_bias)
