"""What the figures of an answer rest on, in sentences."""

from tracekit.tables.ceilings import Ceilings
from tracekit.whatif.efficiency import COLLECTIVE_S, LATENCY_S, SPREAD
from tracekit.whatif.scenario import Scenario


def assumptions(
    scenario: Scenario, ceilings: Ceilings, seen: tuple[str, Ceilings] | None = None
) -> list[str]:
    """What the figures rest on.

    Args:
        scenario: What is asked.
        ceilings: Of the asked device.
        seen: Label and ceilings of the capture that predictions start from; None for none.
    """
    found = [
        *ceilings.notes,
        f"ceilings of {ceilings.device or 'the given rates'}: dense rates, {'measured' if ceilings.dram.is_measured else 'of the data sheet'}",
        "floor: each piece of the model at its nearer roof, weights and cache read once, activations kept on the chip",
        f"weights in {scenario.weight_dtype}, output head and embedding in {scenario.dtype}, cache in {scenario.kv_dtype}",
    ]
    if seen is None:
        found.append(
            f"expected: no capture, so kernels are taken to reach {ceilings.dram.reach:.2f} of the DRAM rate and "
            f"{next(iter(ceilings.peaks.values())).reach:.2f} of the peaks (device table, or large GEMMs and copies on Hopper), at least "
            f"{LATENCY_S * 1e6:.0f} us a kernel (aiconfigurator), give or take {SPREAD:.0%}; the host is taken not to limit"
        )
    else:
        found.append(
            f"expected: times of {seen[0]} by group of kernels, scaled by the ratio of their floors; "
            + (
                "products by the measured course of thin ones too; "
                if seen[1].thin
                else "products as if they reached the same share of their roof with any number of rows; "
            )
            + "kernels at their latency, those of no group, and idle time stay as they were"
        )
    if scenario.config.experts:
        found.append("experts: uniform routing, which is the most experts that a batch can touch")
    if scenario.config.latent is not None:
        found.append("latent attention: keys and values expanded from the latent, not absorbed")
    if scenario.ranks > 1:
        found.append(
            f"tensor parallel: ring all-reduce, {COLLECTIVE_S * 1e6:.0f} us latency each where nothing was measured"
        )
    if scenario.draft:
        found.append(
            "speculative decoding: each guess accepted independently; the draft's own cost is not counted"
        )
    if scenario.chunk:
        found.append("one chunk, after the given number of cached tokens")
    return found
