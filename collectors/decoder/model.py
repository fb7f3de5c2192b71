"""The decoder: embedding, blocks, head."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from collectors.decoder.attention import Attention
from collectors.decoder.latent import LatentAttention
from collectors.decoder.layers import GatedMLP, RMSNorm, Rotary
from collectors.decoder.moe import MixtureOfExperts
from collectors.decoder.step import StepInput
from tracekit.models import ModelConfig

WEIGHT_STD = 0.02


class Block(nn.Module):
    """Attention and MLP, each behind a norm and beside the residual stream."""

    def __init__(self, config: ModelConfig, layer: int, attention: str) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden)
        self.attention = (
            Attention(config, layer, attention)
            if config.latent is None
            else LatentAttention(config, config.latent, layer, attention)
        )
        self.mlp_norm = RMSNorm(config.hidden)
        self.mlp = (
            MixtureOfExperts(config)
            if config.is_moe(layer)
            else GatedMLP(config.hidden, config.intermediate, bias=config.mlp_bias)
        )

    def forward(self, x: Tensor, step: StepInput, rotary: Rotary) -> Tensor:
        """Map [tokens, hidden] to [tokens, hidden]."""
        x = x + self.attention(self.attention_norm(x), step, rotary)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Decoder(nn.Module):
    """A decoder-only transformer of the given dimensions.

    Args:
        config: Dimensions.
        attention: sdpa, flash, flex or eager.
    """

    def __init__(self, config: ModelConfig, attention: str = "sdpa") -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab, config.hidden)
        self.blocks = nn.ModuleList(Block(config, layer, attention) for layer in range(config.layers))
        self.norm = RMSNorm(config.hidden)
        self.head = None if config.tied else nn.Linear(config.hidden, config.vocab, bias=False)
        rotated = config.head_dim if config.latent is None else config.latent.rope_dim
        self.rotary = Rotary(rotated, config.rope_theta)

    def prepare(self, step: StepInput) -> None:
        """Make the masks of a step, which every run of it shares."""
        attentions: list[Any] = [block.attention for block in self.blocks]
        for attention in attentions:
            for group in step.groups:
                attention.prepare(group, self.embedding.weight.device)

    def forward(self, tokens: Tensor, step: StepInput) -> Tensor:
        """The next token of each request, [requests], chosen greedily from the logits of its last one.

        Args:
            tokens: Scheduled tokens of all requests, [tokens].
            step: How they belong to requests, and the caches.
        """
        x = functional.embedding(tokens, self.embedding.weight)
        for block in self.blocks:
            x = block(x, step, self.rotary)
        if step.last_rows is not None:
            x = x.index_select(0, step.last_rows)
        weight = self.embedding.weight if self.head is None else self.head.weight
        return functional.linear(self.norm(x), weight).argmax(dim=-1)


def initialised(
    config: ModelConfig, *, attention: str, dtype: torch.dtype, positions: int, generator: torch.Generator
) -> Decoder:
    """A decoder with normal random weights: never zeros, which real devices multiply faster.

    Args:
        config: Dimensions.
        attention: sdpa, flash, flex or eager.
        dtype: Type of weights and activations.
        positions: Longest key length of any step.
        generator: Source of the weights; its device is that of the model.
    """
    with torch.device("meta"):
        model = Decoder(config, attention)
    model = model.to(dtype).to_empty(device=generator.device).requires_grad_(requires_grad=False)
    for name, parameter in model.named_parameters():
        # Norm weights stand around one, so that the activations neither vanish nor overflow.
        centre, spread = (1.0, 0.1) if "norm" in name else (0.0, WEIGHT_STD)
        parameter.normal_(centre, spread, generator=generator)
    model.rotary.build(positions, dtype, generator.device)
    return model.eval()
