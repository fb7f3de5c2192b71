"""The pieces of one engine step by a model's dimensions: one piece a kernel that an engine launches for a layer.

All quantities are arrays over steps, so that thousands of steps cost as much as one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.models import ModelConfig
from tracekit.models.config import Latent
from tracekit.work.elementwise import SILU_AND_MUL
from tracekit.work.moe import NEARLY_ALL, experts_touched_each
from tracekit.work.norm import FUSED_ADD_RMS, RMS
from tracekit.work.quant import PER_ELEMENT as QUANTISE
from tracekit.work.rope import PER_ELEMENT as ROTATION

Floats: TypeAlias = npt.NDArray[np.float64]

_SLOT_BYTES = 8


@dataclass(frozen=True, slots=True)
class StepSizes:
    """What the steps process; NaN is unknown.

    Attributes:
        tokens: Query tokens.
        requests: Requests, each of which has one row of logits.
        sum_k: Key tokens over requests.
        pairs: Query-key pairs over requests under a causal mask.
    """

    tokens: Floats
    requests: Floats
    sum_k: Floats
    pairs: Floats


@dataclass(frozen=True, slots=True)
class Piece:
    """One kernel's share of a step.

    Attributes:
        role: What it is: qkv, out, gate_up …
        flops: Useful operations, by step [FLOP].
        moved: Bytes of activations and indices, by step [byte].
        weights: Weight elements read, by step.
        kv: Elements of keys and values read or written in the cache, by step.
        matrix: Whether it runs on matrix units.
        expected: Weight elements of experts that are an expectation, by step.
    """

    role: str
    flops: Floats
    moved: Floats
    weights: Floats
    kv: Floats
    matrix: bool = False
    expected: Floats | float = 0.0


@dataclass(frozen=True, slots=True)
class Fusion:
    """Which layers of a model an engine runs as one kernel.

    Attributes:
        qkv: Query, key and value projections.
        gate_up: Both halves of a gated MLP's first layer.
        head: Whether the output head is among the kernels.
        router: Whether the router is an ordinary product among them.
        qk_norm: Whether query and key norms are kernels of their own.
        qk_rope: Whether one kernel norms and rotates queries and keys, as TensorRT-LLM's does.
        experts: Both expert layers.
        absorbed: Whether MLA multiplies queries and results by the expansion of the latent instead of the keys and values.
        both: Whether it does the one for prefilling and the other for decoding requests, in a mixed step.
    """

    qkv: bool = True
    gate_up: bool = True
    head: bool = True
    router: bool = True
    qk_norm: bool = True
    qk_rope: bool = False
    experts: bool = False
    absorbed: bool = False
    both: bool = False


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the pieces of a model's step.

    Attributes:
        config: The model, or what one rank holds of it.
        sizes: The steps.
        item: Bytes of one activation element.
        sides: What prefilling and what decoding requests have of each step; None where that is not asked for.
    """

    config: ModelConfig
    sizes: StepSizes
    item: float
    sides: tuple[StepSizes, StepSizes] | None = None

    def linear(self, role: str, out: float, inner: float, rows: Floats | None = None) -> Piece:
        """F = 2·T·N·K; T(N + K) activation elements, N·K weights."""
        tokens = self.sizes.tokens if rows is None else rows
        flops = 2.0 * tokens * out * inner
        return Piece(
            role,
            flops,
            tokens * (out + inner) * self.item,
            np.full_like(tokens, out * inner),
            self._none(),
            matrix=True,
        )

    def products(self, fusion: Fusion) -> Iterator[Piece]:
        """Dense products of a step, in order of launch."""
        for layer in range(self.config.layers):
            yield from self._attention_products(fusion)
            if not self.config.is_moe(layer):
                yield from self._mlp(self.config.intermediate, fusion)
                continue
            if fusion.router:
                yield self.linear("router", self.config.experts, self.config.hidden)
            if self.config.shared_experts:
                yield from self._mlp(self.config.shared_experts * self.config.expert_intermediate, fusion)
        if fusion.head:
            yield self.linear("lm_head", self.config.vocab, self.config.hidden, self.sizes.requests)

    def _attention_products(self, fusion: Fusion) -> Iterator[Piece]:
        config = self.config
        if config.latent is not None:
            yield from self._latent_products(config.latent, fusion)
            return
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        if fusion.qkv:
            yield self.linear("qkv", queries + 2 * keys, config.hidden)
        else:
            for role, width in (("q", queries), ("k", keys), ("v", keys)):
                yield self.linear(role, width, config.hidden)
        yield self.linear("out", config.hidden, queries)

    def _latent_products(self, latent: Latent, fusion: Fusion) -> Iterator[Piece]:
        """MLA: keys and values expanded from the latent, or the expansion absorbed into queries and results.

        Absorbed: q[h, T, dn] x [h, dn, dc] before attention and o[h, T, dc] x [h, dc, dv] after it, together the
        operations and weights of the expansion (DeepSeek-V2, 2024, section 2.1).
        """
        config, key = self.config, latent.nope_dim + latent.rope_dim
        compressed = latent.kv_rank + latent.rope_dim
        if latent.query_rank and fusion.qkv:
            yield self.linear("qkv_a", latent.query_rank + compressed, config.hidden)
            yield self.linear("q_b", config.heads * key, latent.query_rank)
        elif latent.query_rank:
            yield self.linear("q_a", latent.query_rank, config.hidden)
            yield self.linear("q_b", config.heads * key, latent.query_rank)
            yield self.linear("kv_a", compressed, config.hidden)
        else:
            yield self.linear("q", config.heads * key, config.hidden)
            yield self.linear("kv_a", compressed, config.hidden)
        context, generation = self.sides if fusion.both and self.sides else (self.sizes, self.sizes)
        if fusion.both or not fusion.absorbed:
            expanded = config.heads * (latent.nope_dim + latent.value_dim)
            yield self.linear("kv_b", expanded, latent.kv_rank, context.tokens)
        if fusion.both or fusion.absorbed:
            yield self._by_head("absorb_k", latent.kv_rank, latent.nope_dim, generation.tokens)
            yield self._by_head("absorb_v", latent.value_dim, latent.kv_rank, generation.tokens)
        yield self.linear("out", config.hidden, config.heads * latent.value_dim)

    def _by_head(self, role: str, out: float, inner: float, tokens: Floats) -> Piece:
        """One product a head: F = 2·T·h·N·K; T·h(N + K) activation elements, h·N·K weights."""
        heads = self.config.heads
        flops = 2.0 * tokens * heads * out * inner
        moved = tokens * heads * (out + inner) * self.item
        weights = np.full_like(tokens, heads * out * inner)
        return Piece(role, flops, moved, weights, self._none(), matrix=True)

    def _mlp(self, width: int, fusion: Fusion) -> Iterator[Piece]:
        if fusion.gate_up:
            yield self.linear("gate_up", 2 * width, self.config.hidden)
        else:
            yield self.linear("gate", width, self.config.hidden)
            yield self.linear("up", width, self.config.hidden)
        yield self.linear("down", self.config.hidden, width)

    def experts(self, fusion: Fusion) -> Iterator[Piece]:
        """Grouped products: operations of the chosen experts, weights of those touched under uniform routing."""
        config = self.config
        rows = self.sizes.tokens * config.experts_per_token
        touched = experts_touched_each(config.experts, config.experts_per_token, self.sizes.tokens)
        for layer in range(config.layers):
            if not config.is_moe(layer):
                continue
            first = self._expert("gate_up", rows, touched, 2 * config.expert_intermediate, config.hidden)
            second = self._expert("down", rows, touched, config.hidden, config.expert_intermediate)
            yield from [_joined("experts", first, second)] if fusion.experts else [first, second]

    def _expert(self, role: str, rows: Floats, touched: Floats, out: float, inner: float) -> Piece:
        moved = rows * (out + inner) * self.item
        weights = touched * out * inner
        told = (self.sizes.tokens <= 1) | (touched >= NEARLY_ALL * self.config.experts)
        expected = np.where(told, 0.0, weights)
        return Piece(
            role, 2.0 * rows * out * inner, moved, weights, self._none(), matrix=True, expected=expected
        )

    def finalise(self) -> Iterator[Piece]:
        """Sum of each token's experts: T·k·H read, T·H written."""
        rows = self.sizes.tokens * self.config.hidden
        share = self.config.experts_per_token
        for layer in range(self.config.layers):
            if self.config.is_moe(layer):
                yield self._pointwise("finalise", 2.0 * rows * share, rows * (share + 1) * self.item)

    def quantised(self) -> Iterator[Piece]:
        """Inputs of experts quantised to MXFP8: 3 an element; read, and a byte each and one a block of 32 written."""
        numel = self.sizes.tokens * self.config.hidden
        for layer in range(self.config.layers):
            if self.config.is_moe(layer):
                yield self._pointwise("quant", QUANTISE * numel, numel * (self.item + 1 + 1 / 32))

    def attention(self, *, absorbed: bool = False) -> Iterator[Piece]:
        """Attention of each layer; a windowed one sees at most its window, which is an upper value from sums.

        MLA reads the cached latent once for all heads: expanded, keys of dn + dr and values of dv meet; absorbed,
        keys of dc + dr and values of dc (DeepSeek-V2, 2024, section 2.1).
        """
        config = self.config
        key, value, cached = self._head_sizes(absorbed=absorbed)
        moved = self.sizes.tokens * config.heads * (key + value) * self.item
        for layer in range(config.layers):
            pairs, keys = self._seen(config.window(layer))
            yield Piece(
                "attention",
                2.0 * pairs * config.heads * (key + value),
                moved,
                self._none(),
                keys * cached,
                matrix=True,
            )

    def attention_by_side(self) -> Iterator[Piece]:
        """MLA of mixed steps, a kernel a side in each layer: prefill expanded, then decode absorbed.

        That is the order of vLLM's MLA layer (forward_mha, then forward_mqa, in mla_attention.py).
        """
        if self.sides is not None:
            context, generation = (replace(self, sizes=side) for side in self.sides)
            for both in zip(context.attention(), generation.attention(absorbed=True), strict=True):
                yield from both

    def _head_sizes(self, *, absorbed: bool) -> tuple[int, int, int]:
        """Elements of a key head and a value head, and cached ones a token."""
        config, latent = self.config, self.config.latent
        if latent is None:
            return config.head_dim, config.head_dim, 2 * config.kv_heads * config.head_dim
        cached = latent.kv_rank + latent.rope_dim
        if absorbed:
            return cached, latent.kv_rank, cached
        return latent.nope_dim + latent.rope_dim, latent.value_dim, cached

    def _seen(self, window: int | None) -> tuple[Floats, Floats]:
        """Pairs and keys under a window: at most W a query, at most Lq + W - 1 a request."""
        sizes = self.sizes
        if window is None:
            return sizes.pairs, sizes.sum_k
        pairs = np.minimum(sizes.pairs, window * sizes.tokens)
        return pairs, np.minimum(sizes.sum_k, sizes.tokens + sizes.requests * (window - 1))

    def norms(self, fusion: Fusion) -> Iterator[Piece]:
        """Input, query, key (or latent) and post-attention norms of each layer, and the last; all but the first add a residual."""
        config, tokens = self.config, self.sizes.tokens
        split = fusion.qk_norm and config.qk_norm and not fusion.qk_rope
        for layer in range(config.layers):
            yield self._norm(tokens * config.hidden, config.hidden, fused=layer > 0)
            if fusion.qk_rope and config.qk_norm:
                yield self._norm_and_rotation()
            for heads in (config.heads, config.kv_heads) if split else ():
                yield self._norm(tokens * heads * config.head_dim, config.head_dim, fused=False)
            for width in self._latent_widths():
                yield self._norm(tokens * width, width, fused=False)
            yield self._norm(tokens * config.hidden, config.hidden, fused=True)
        yield self._norm(tokens * config.hidden, config.hidden, fused=True)

    def _norm_and_rotation(self) -> Piece:
        """Queries and keys normed and rotated in one pass: 4 + 3 an element, read and written, and two norms' weights."""
        config = self.config
        numel = self.sizes.tokens * (config.heads + config.kv_heads) * config.head_dim
        weights = np.full_like(numel, 2 * config.head_dim)
        return Piece("norm", (RMS + ROTATION) * numel, 2 * numel * self.item, weights, self._none())

    def _latent_widths(self) -> list[int]:
        """Widths of the latents of MLA, each of which has a norm."""
        latent = self.config.latent
        return [] if latent is None else [width for width in (latent.query_rank, latent.kv_rank) if width]

    def _norm(self, numel: Floats, width: int, *, fused: bool) -> Piece:
        flops = numel * (FUSED_ADD_RMS if fused else RMS)
        return Piece(
            "norm", flops, numel * self.item * (4 if fused else 2), np.full_like(numel, width), self._none()
        )

    def rotations(self) -> Iterator[Piece]:
        """Rotary embedding of queries and keys: 3 an element, read and written; in MLA of their positional parts, one key."""
        config, latent = self.config, self.config.latent
        heads, dim = config.heads + config.kv_heads, config.head_dim
        if latent is not None:
            heads, dim = config.heads + 1, latent.rope_dim
        numel = self.sizes.tokens * heads * dim
        table = self.sizes.tokens * dim * self.item
        for _ in range(self.config.layers):
            yield self._pointwise("rope", ROTATION * numel, 2 * numel * self.item + table)

    def activations(self) -> Iterator[Piece]:
        """Gates of dense MLPs: 5 a result, 3·T·I elements."""
        numel = self.sizes.tokens * self.config.intermediate
        for layer in range(self.config.layers):
            if not self.config.is_moe(layer):
                yield self._pointwise("act", SILU_AND_MUL * numel, 3 * numel * self.item)

    def cache_writes(self) -> Iterator[Piece]:
        """New keys and values: read as activations, written to the cache."""
        _key, _value, cached = self._head_sizes(absorbed=False)
        numel = self.sizes.tokens * cached
        for _ in range(self.config.layers):
            moved = numel * self.item + _SLOT_BYTES * self.sizes.tokens
            yield Piece("kv", self._none(), moved, self._none(), numel)

    def _pointwise(self, role: str, flops: Floats, moved: Floats) -> Piece:
        return Piece(role, flops, moved, self._none(), self._none())

    def _none(self) -> Floats:
        return np.zeros_like(self.sizes.tokens)


def _joined(role: str, first: Piece, second: Piece) -> Piece:
    """Two pieces in one kernel."""
    return Piece(
        role,
        first.flops + second.flops,
        first.moved + second.moved,
        first.weights + second.weights,
        first.kv + second.kv,
        matrix=first.matrix,
        expected=first.expected + second.expected,
    )
