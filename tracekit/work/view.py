"""Ops that move nothing: views, allocations, and bookkeeping."""

from tracekit.work.registered import NOTHING, OpKind, OpWork, model
from tracekit.work.signature import OpCall

_VIEWS = """
_conj _neg_view _reshape_alias _unsafe_view alias as_strided broadcast_to chunk conj detach detach_ diagonal expand
expand_as flatten item lift lift_fresh lift_fresh_copy_ mT movedim narrow numpy_T permute ravel real resolve_conj
resolve_neg result_type select set_ slice split split_with_sizes squeeze squeeze_ swapaxes swapdims t t_ tensor_split
transpose transpose_ unbind unflatten unfold unsafe_chunk unsafe_split unsqueeze unsqueeze_ view view_as view_as_complex
view_as_real hsplit vsplit numel size stride is_contiguous is_nonzero is_floating_point sym_size sym_numel
"""
_ALLOCATIONS = """
empty empty_like empty_strided new_empty new_empty_strided resize_ resize_as_ _efficientzerotensor
_nested_tensor_size record_stream can_cast _has_compatible_shallow_copy_type _local_scalar_dense is_pinned
"""


@model(
    *(f"aten::{name}" for name in (_VIEWS + _ALLOCATIONS).split()), "_C::weak_ref_tensor", kind=OpKind.VIEW
)
def view(_call: OpCall) -> OpWork:
    """F = 0, Q = 0: only sizes and strides change, or memory is reserved untouched."""
    return NOTHING
