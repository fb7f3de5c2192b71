"""Work from a model's dimensions and a step's tokens, for kernels whose op recorded no sizes."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.models import ModelConfig
from tracekit.tables import Kind, WorkSource
from tracekit.tables.stored import weight_item
from tracekit.tables.text import distinct, is_word, matches, numbered
from tracekit.work.dtypes import element_size
from tracekit.work.known import COLUMNS, fill_work, unknown_work
from tracekit.work.pieces import Builder, Fusion, Piece, StepSizes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Kernels that quantise the experts' inputs to MXFP8; others of the family serve other layers.
_MXFP8_INPUTS = re.compile(r"quantize_with_block_size<\(\S*BlockScaleQuantizationType\)2, [^<>]*\b32\b")
_EXPERT_INPUTS = "quant.experts"
_PRODUCTS = ("gemm", "gemm.quant", "gemv")
# Kernels that serve another one's result: no useful operation of their own.
_SERVING = ("gemm.aux", "attn.combine", "attn.meta", "moe.route")


@dataclass(frozen=True, slots=True)
class Stored:
    """How a model's numbers are stored.

    Attributes:
        dtype: Dtype word of activations and of the math, where a kernel's name does not say.
        weight_item: Bytes of one weight, where a kernel's name does not say; the dtype's where None.
        kv_item: Bytes of one cached element; the dtype's where None.
    """

    dtype: str = "bf16"
    weight_item: float | None = None
    kv_item: float | None = None

    @property
    def item(self) -> float:
        """Bytes of one activation element."""
        return float(element_size(self.dtype))


def step_sizes(steps: pd.DataFrame) -> StepSizes:
    """Tokens, requests and sums of STEPS rows; what a step does not say is NaN."""
    both = _column(steps, "context_tokens") + _column(steps, "generation_tokens")
    tokens = np.where(np.isnan(both), _column(steps, "sum_q"), both)
    pairs = _column(steps, "sum_qk") - (_column(steps, "sum_qq") - _column(steps, "sum_q")) / 2
    requests = _column(steps, "context_requests") + _column(steps, "generation_requests")
    return StepSizes(tokens, requests, _column(steps, "sum_k"), pairs)


def side_sizes(steps: pd.DataFrame) -> tuple[StepSizes, StepSizes]:
    """What the prefilling and the decoding requests have of each step; what a step does not say is NaN."""
    whole, tokens = step_sizes(steps), _column(steps, "context_tokens")
    pairs = _column(steps, "context_sum_qk") - (_column(steps, "context_sum_qq") - tokens) / 2
    context = StepSizes(tokens, _column(steps, "context_requests"), _column(steps, "context_sum_k"), pairs)
    rest = (getattr(whole, name) - getattr(context, name) for name in ("sum_k", "pairs"))
    requests = _column(steps, "generation_requests")
    return context, StepSizes(_column(steps, "generation_tokens"), requests, *rest)


def _column(steps: pd.DataFrame, name: str) -> Floats:
    if name not in steps:
        return np.full(len(steps), np.nan)
    return np.asarray(steps[name].astype("float64"), dtype=np.float64)


def matmul_flops(config: ModelConfig, sizes: StepSizes) -> Floats:
    """Useful matrix operations of each step: products, experts and attention [FLOP].

    The products are 2·(active parameters without embedding and head)·tokens + 2·vocab·hidden·requests, since
    each weight meets each token in one multiply-add.
    """
    builder = Builder(config, sizes, 2.0)
    pieces = itertools.chain(builder.products(Fusion()), builder.experts(Fusion()), builder.attention())
    return np.asarray(np.sum([piece.flops for piece in pieces], axis=0), dtype=np.float64)


def apply_config(
    kernels: pd.DataFrame, steps: pd.DataFrame, config: ModelConfig, stored: Stored | None = None
) -> pd.DataFrame:
    """Fill the unknown work of kernels inside steps from a model's dimensions.

    Within a step the kernels of a family, in order, are matched with the pieces of the layers: where their
    numbers agree (for one of the ways in which engines fuse layers), the k-th kernel is the k-th piece. Where
    they do not, nothing is said of that family in that step.

    Args:
        kernels: The output of `model_work`, with `family`, `step_id` and `name_dtype`.
        steps: STEPS with tokens, requests and sums.
        config: The model, or what one rank of a tensor-parallel group holds of it.
        stored: How its numbers are stored.

    Returns:
        The kernels; what was filled has source `config`. Attention that step sums completed is replaced where
        the model has windowed layers, since the sums do not know of windows.
    """
    wanting = unknown_work(kernels)
    if config.sliding_window and any(config.windowed):
        summed = is_word(kernels, "flops_source", WorkSource.ANNOTATION)
        wanting = wanting | summed
    if not wanting.any() or not len(steps):
        return kernels
    stored = stored or Stored()
    builder = Builder(config, step_sizes(steps), stored.item, side_sizes(steps))
    places = _places(kernels, steps)
    result = _Filled(kernels, stored)
    for families, variants in _variants(builder):
        _match(places, families, variants, result)
    rows = wanting & result.filled
    serving = wanting & is_word(kernels, "family", *_SERVING) & (places["step"].to_numpy() >= 0)
    result.serve(serving)
    rows |= serving
    return fill_work(kernels, rows, result.frame()[rows])


def _places(kernels: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Each kernel's family and step, in order of start."""
    position = pd.Series(np.arange(len(steps)), index=steps["step_id"].astype("float64"))
    step = position.reindex(kernels["step_id"].astype("float64")).fillna(-1).to_numpy(dtype=np.int64)
    step = np.where(is_word(kernels, "kind", Kind.KERNEL), step, -1)
    frame = pd.DataFrame({"row": np.arange(len(kernels)), "step": step, "ts_ns": kernels["ts_ns"].to_numpy()})
    found, family = distinct(kernels["family"])
    family = np.where(matches(kernels["name"], _MXFP8_INPUTS), len(found), family)
    return frame.assign(family=numbered(family, [*found[:-1], None, _EXPERT_INPUTS])).sort_values(
        "ts_ns", kind="stable"
    )


@dataclass(frozen=True, slots=True)
class _Variant:
    """Pieces that an engine may launch in a step.

    Attributes:
        pieces: One a kernel, in order.
        steps: Steps that may run like that; None is every step.
    """

    pieces: list[Piece]
    steps: npt.NDArray[np.bool_] | None = None


def _variants(builder: Builder) -> Iterator[tuple[tuple[str, ...], Iterable[_Variant]]]:
    """For each group of families, what an engine may launch, the likeliest first; most often that one is made alone."""
    config = builder.config
    flags = itertools.product((True, False), repeat=4)
    fusions = [
        Fusion(head=head, qkv=qkv, gate_up=gate_up, router=router) for qkv, gate_up, router, head in flags
    ]
    products: Iterable[_Variant] = (_Variant(list(builder.products(fusion))) for fusion in fusions)
    attention = [_Variant(list(builder.attention()))]
    if config.latent is not None:
        absorbing, mixed, two_forms = _latent_steps(builder)
        absorbed = [replace(fusion, absorbed=True) for fusion in fusions]
        both = [replace(fusion, both=True) for fusion in fusions]
        # Engines that mix are those that fuse, so both forms come before products that are not fused.
        products = itertools.chain(
            (_Variant(list(builder.products(fusion)), absorbing) for fusion in absorbed),
            (_Variant(list(builder.products(fusion)), two_forms) for fusion in both),
            products,
        )
        # One kernel a layer for both sides is of either form.
        attention = [
            _Variant(list(builder.attention(absorbed=True)), absorbing),
            _Variant(list(builder.attention()), ~mixed),
            _Variant(list(builder.attention_by_side()), two_forms),
        ]
    yield _PRODUCTS, products
    yield ("attn", "attn.mla"), attention
    norms = (Fusion(), Fusion(qk_norm=False), Fusion(qk_rope=True))
    yield ("norm",), (_Variant(list(builder.norms(fusion))) for fusion in norms)
    yield ("rope",), [_Variant(list(builder.rotations()))]
    yield ("kv",), [_Variant(list(builder.cache_writes()))]
    yield ("act",), [_Variant(list(builder.activations()))]
    if config.experts:
        joined = (Fusion(experts=both) for both in (False, True))
        yield ("moe.gemm",), [_Variant(list(builder.experts(fusion))) for fusion in joined]
        yield (_EXPERT_INPUTS,), [_Variant(list(builder.quantised()))]
        yield ("moe.perm",), [_Variant(list(builder.finalise()))]


def _latent_steps(builder: Builder) -> tuple[Bools, Bools, Bools]:
    """Steps in which MLA absorbs the expansion, mixed steps, and those of them in which it does for one side alone.

    Serving engines absorb it where a request has one query token.
    """
    sizes, (context, generation) = builder.sizes, builder.sides or (builder.sizes, builder.sizes)
    absorbing = sizes.tokens == sizes.requests
    mixed = (context.requests > 0) & (generation.requests > 0) & ~absorbing
    return absorbing, mixed, mixed & (generation.tokens == generation.requests)


def _match(
    places: pd.DataFrame, families: tuple[str, ...], variants: Iterable[_Variant], result: "_Filled"
) -> None:
    chosen = places[is_word(places, "family", *families) & (places["step"] >= 0).to_numpy()]
    groups = chosen.groupby("step", sort=False)["row"]
    count, place = groups.transform("size").to_numpy(), groups.cumcount().to_numpy()
    done = np.zeros(len(chosen), dtype=np.bool_)
    step = chosen["step"].to_numpy()
    for variant in variants:
        if done.all():
            break
        pieces = variant.pieces
        here = ~done & (count == len(pieces))
        if variant.steps is not None:
            here &= variant.steps[step]
        if pieces and here.any():
            result.put(chosen["row"].to_numpy()[here], step[here], place[here], pieces)
            done |= here


class _Filled:
    """The work columns that the pieces give."""

    def __init__(self, kernels: pd.DataFrame, stored: Stored) -> None:
        count = len(kernels)
        self.filled = np.zeros(count, dtype=np.bool_)
        self._numbers = {
            name: np.full(count, np.nan)
            for name in ("flops", "dram_bytes", "weight_bytes", "kv_bytes", "bus_bytes", "expected_bytes")
        }
        self._texts: dict[str, npt.NDArray[np.object_]] = {
            name: np.full(count, None, dtype=object) for name in ("dtype", "peak")
        }
        self._stored = stored
        self._item = _weight_items(kernels["name"], stored)
        named = (
            kernels["name_dtype"].astype(object)
            if "name_dtype" in kernels
            else pd.Series([None] * count, dtype=object)
        )
        self._dtype = named.where(named.notna() & (named != "int4"), stored.dtype).to_numpy()

    def put(self, rows: Ints, steps: Ints, place: Ints, pieces: list[Piece]) -> None:
        """Set rows from the piece at their place, in their step."""

        def at(name: str) -> Floats:
            return np.asarray(
                np.stack([getattr(piece, name) for piece in pieces])[place, steps], dtype=np.float64
            )

        weights = at("weights") * self._item[rows]
        kv = at("kv") * (self._stored.kv_item or self._stored.item)
        self._numbers["flops"][rows] = at("flops")
        self._numbers["dram_bytes"][rows] = at("moved") + weights + kv
        self._numbers["weight_bytes"][rows], self._numbers["kv_bytes"][rows] = weights, kv
        expected = np.stack([np.broadcast_to(piece.expected, piece.weights.shape) for piece in pieces])
        self._numbers["expected_bytes"][rows] = expected[place, steps] * self._item[rows]
        matrix = np.array([piece.matrix for piece in pieces], dtype=np.bool_)[place]
        self._texts["dtype"][rows] = np.where(matrix, self._dtype[rows], self._stored.dtype)
        self._texts["peak"][rows] = np.where(matrix, self._dtype[rows], "vector")
        self.filled[rows] = ~(
            np.isnan(self._numbers["flops"][rows]) & np.isnan(self._numbers["dram_bytes"][rows])
        )

    def serve(self, rows: npt.NDArray[np.bool_]) -> None:
        """Set rows that serve another kernel: 0 FLOP, bytes unknown."""
        self._numbers["flops"][rows] = 0.0

    def frame(self) -> pd.DataFrame:
        """The columns, with source `config` where a number is known."""
        frame = pd.DataFrame({**self._numbers, **self._texts})
        for name in ("flops", "dram_bytes"):
            frame[f"{name}_source"] = frame[name].notna().map({True: str(WorkSource.CONFIG), False: None})
        return frame[list(COLUMNS)]


def _weight_items(names: pd.Series, stored: Stored) -> Floats:
    """Bytes of one weight by kernel name; each distinct name is looked at once."""
    column = names.astype("category").cat
    default = stored.weight_item or stored.item
    told = [weight_item(str(name)) for name in column.categories]
    items = [default if item is None else item for item in told]
    return np.array([*items, default], dtype=np.float64)[column.codes.to_numpy()]
