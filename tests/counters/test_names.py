"""One spelling for a name, whichever tool printed it; different kernels keep different names."""

import pytest

from tracekit.counters import canonical_name

ADD = "at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}"
ADD_NCU = "at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float>>(at::TensorIteratorBase &, const at::native::CUDAFunctor_add<float> &)::[lambda(int) (instance 1)]"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void Sobel<double>(uchar4 *, uchar4 *, int, int)", "Sobel<double>"),
        ("transpose(float *, float *, int, int)", "transpose"),
        (
            f"void at::native::elementwise_kernel<128, 2, {ADD}>(int, {ADD})",
            f"void at::native::elementwise_kernel<(int)128, (int)2, {ADD_NCU}>(int, T3)",
        ),
        ("void f<4ul, true>(int)", "void f<(unsigned long)4, (bool)1>(int)"),
        ("void f<-1l>(int)", "void f<(long)-1>(int)"),
        ("void (anonymous namespace)::f<int>()", "void <unnamed>::f<int>()"),
        ("void f<c10::BFloat16>(int)", "void f<__nv_bfloat16>(int)"),
        ("_ZN7cutlass6KernelI4GemmEEvNT_6ParamsE", "void cutlass::Kernel<Gemm>(Params)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("void f<&bar::operator()>(int)", "f<&bar::operator()>"),
    ],
)
def test_two_spellings_of_one_kernel(one: str, other: str) -> None:
    assert canonical_name(one).full == canonical_name(other).full


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void f<float>(int)", "void f<double>(int)"),
        ("void f<1>(int)", "void f<11>(int)"),
        ("void a::f<int>()", "void b::f<int>()"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_nn"),
        (f"void k<{ADD}>(int)", f"void k<{ADD.replace('add', 'mul')}>(int)"),
    ],
)
def test_two_kernels_keep_two_names(one: str, other: str) -> None:
    assert canonical_name(one).full != canonical_name(other).full


@pytest.mark.parametrize(
    "text", ["", ")))", "<<<<", "(", "a->b", "\0", "operator()", "x" * 100_000, "<(" * 5000]
)
def test_no_text_is_too_odd(text: str) -> None:
    assert canonical_name(text).base is not None


def test_a_base_is_the_function_without_namespaces_and_arguments() -> None:
    name = canonical_name(
        "void at::native::vectorized_elementwise_kernel<4, Add, std::array<char*, 3ul>>(int)"
    )
    assert (name.base, name.bare) == ("vectorized_elementwise_kernel", False)
    assert canonical_name("vectorized_elementwise_kernel").bare
