"""`tracekit whatif`: the speed of light and the expected time of a step under changes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.options import Cache, CacheDir, Data, Dram, Json, Peak, choices, reading
from tracekit.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from tracekit.pipeline import Options
    from tracekit.whatif.answer import Seen, Target


def _number(help_text: str, flag: str, least: int) -> Any:
    return typer.Option(flag, help=help_text, min=least, show_default=False)


def whatif(
    capture: Annotated[
        str | None,
        typer.Argument(help="A capture whose efficiency predictions take over.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model preset or config.json.", show_default=False)
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Device to ask about (see `tracekit devices`).", show_default=False),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase", help="prefill or decode; decode, or the capture's longest.", show_default=False
        ),
    ] = None,
    batch: Annotated[int | None, _number("Requests of a step.", "--batch", 1)] = None,
    prompt_len: Annotated[int | None, _number("Tokens of a prompt.", "--prompt-len", 1)] = None,
    kv_len: Annotated[int | None, _number("Cached tokens a request.", "--kv-len", 0)] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Type of activations and of the math.", show_default=False)
    ] = None,
    weight_dtype: Annotated[
        str | None,
        typer.Option("--weight-dtype", help="bf16, fp16, fp8, int8, int4, fp4.", show_default=False),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", help="bf16, fp16, fp8, int8, int4, fp4.", show_default=False)
    ] = None,
    tp: Annotated[int | None, _number("Tensor-parallel ranks that share the model.", "--tp", 1)] = None,
    chunk: Annotated[int | None, _number("Tokens a request of one chunk of a prefill.", "--chunk", 1)] = None,
    speculative: Annotated[
        str | None,
        typer.Option(
            "--speculative",
            metavar="K,ACCEPT",
            help="Guess K tokens, each accepted so often.",
            show_default=False,
        ),
    ] = None,
    cuda_graphs: Annotated[
        bool, typer.Option("--cuda-graphs", help="Replay graphs: no waits for the host.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder to write the answer to.", show_default=False),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="What to write there, separated by commas.")
    ] = "html,md,json",
    peak: Peak = None,
    dram: Dram = None,
    data: Data = None,
    cache: Cache = False,
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> None:
    """Say what a step costs at the speed of light and by expectation, and what each change would do.

    With a capture the efficiency of its kernels is taken over; without one, named defaults are.
    """
    import msgspec

    from tracekit.report.console import emit_json
    from tracekit.report.files import parse_formats
    from tracekit.whatif.answer import what_if
    from tracekit.whatif.render import FORMATS, print_answer, write_answer

    wanted = parse_formats(formats, FORMATS)
    if capture is None and model is None:
        raise UsageError(
            "whatif needs a capture or --model", hint="for example --model Llama-3.1-8B --device h200"
        )
    with reading() as progress:
        options = choices(
            data=data, peaks=peak, dram=dram, model=model, cache=cache, cache_dir=cache_dir, progress=progress
        )
        seen = None if capture is None else _seen(capture, options, phase)
    changes = {
        "phase": phase, "batch": batch, "prompt_len": prompt_len, "kv_len": kv_len, "dtype": dtype,
        "weight_dtype": weight_dtype or (dtype if seen is None else None),
        "kv_dtype": kv_dtype or (dtype if seen is None else None), "ranks": tp, "chunk": chunk,
        **_speculation(speculative), "cuda_graphs": cuda_graphs or None,
    }  # fmt: skip
    start = _model_step(options, phase) if seen is None else seen.scenario
    scenario = replace(start, **{name: value for name, value in changes.items() if value is not None})
    target = _target(device, options, seen)
    found = what_if(scenario.checked(), target, seen, _faster(target, options))
    if output is not None:
        write_answer(found, output, wanted)
    if as_json:
        emit_json(msgspec.to_builtins(found))
    else:
        print_answer(found)


def _speculation(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    count, _, share = text.partition(",")
    try:
        return {"draft": int(count), "accept": float(share)}
    except ValueError:
        raise UsageError(f"--speculative {text!r}: write K,ACCEPT", hint="for example 4,0.7") from None


def _model_step(options: "Options", phase: str | None) -> Any:
    """A step of the model that was named; a prefill starts with an empty cache."""
    from tracekit.models import resolve
    from tracekit.whatif.scenario import Scenario

    config = resolve(options.model or "", options.data)
    return Scenario(config, kv_len=0) if phase == "prefill" else Scenario(config)


def _seen(capture: str, options: "Options", phase: str | None) -> "Seen":
    from tracekit.models import resolve
    from tracekit.pipeline import analyze
    from tracekit.whatif.answer import Target
    from tracekit.whatif.captured import from_capture

    result = analyze([capture], options)
    if not len(result.all_kernels):
        first = result.errors[0] if result.errors else None
        raise CaptureError(capture, "nothing to start from", hint=first.message if first else "")
    config = None if options.model is None else resolve(options.model, options.data)
    target = Target(result.ceilings, _capacity(result.device.matched, options.data))
    return from_capture(result, capture, phase, config, target)


def _capacity(name: str | None, data: tuple[Path, ...]) -> float | None:
    from tracekit.roofline import load_devices

    row = next((row for row in load_devices(data) if row.name == name), None)
    if row is None:
        return None
    return row.memory_bytes or (row.memory_gb * 1e9 if row.memory_gb is not None else None)


def _faster(target: "Target", options: "Options") -> "Target | None":
    """The next device of the table whose memory is faster, of the same vendor and form; None where there is none."""
    from tracekit.roofline import device_ceilings, load_devices, next_memory
    from tracekit.whatif.answer import Target

    row = next_memory(target.ceilings.device, load_devices(options.data))
    return None if row is None else Target(device_ceilings(row), _capacity(row.name, options.data))


def _target(device: str | None, options: "Options", seen: "Seen | None") -> "Target":
    from tracekit.roofline import choose_device, device_ceilings, load_devices, with_given
    from tracekit.tables.ceilings import Ceilings
    from tracekit.whatif.answer import Target

    if device is None and seen is not None:
        return seen.target
    if device is None:
        if options.dram is None:
            raise UsageError(
                "whatif needs --device", hint="or --peak and --dram; `tracekit devices` lists devices"
            )
        return Target(with_given(Ceilings(), options.peaks, options.dram))
    row, note = choose_device(device, load_devices(options.data))
    ceilings = replace(device_ceilings(row), notes=(note,) if note else ())
    return Target(with_given(ceilings, options.peaks, options.dram), _capacity(row.name, options.data))
