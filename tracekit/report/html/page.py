"""One self-contained HTML file: template, style, script and chart bundle put together.

Charts are Vega-Lite. It was chosen because one specification gives the interactive chart and, through the same
package, PNG and SVG for documents; its bundle comes from an installed package at build time, so that nothing is
fetched; and its expressions can be interpreted without `eval`, which lets the page forbid `eval` outright.
"""

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import PurePath

from markupsafe import Markup

from tracekit.formats import SHAPES_TRACE, TIMING_TRACE
from tracekit.report.html.bundle import vega
from tracekit.report.html.environment import environment
from tracekit.report.html.figure import CLASS_COLOURS, Figure
from tracekit.report.html.losses import family_figures, waterfall_figures
from tracekit.report.html.method import FORMULAS, defaults
from tracekit.report.html.payload import kernel_table, script_json
from tracekit.report.html.queue import queue_figures
from tracekit.report.html.ranks import rank_figures, ranks
from tracekit.report.html.roofline import roofline_figures
from tracekit.report.html.timeline import step_rows, timeline_figures, trend_figures
from tracekit.report.result import Result


def render_html(result: Result) -> str:
    """The report as one HTML file that needs nothing beside it and no network."""
    steps, devices = step_rows(result), ranks(result)
    figures: dict[str, list[Figure]] = {
        "timeline": list(timeline_figures(result, steps)),
        "queue": list(queue_figures(result)),
        "roofline": list(roofline_figures(result)),
        "losses": [*waterfall_figures(result), *family_figures(result)],
        "trend": list(trend_figures(result)),
        "ranks": list(rank_figures(devices)),
    }
    document = {
        "charts": {figure.key: figure.spec for group in figures.values() for figure in group},
        "kernels": kernel_table(result),
        "steps": [{"step": row["step"], "detail": row["detail"]} for row in steps],
    }
    scripts = [vega(), _asset("report.js")]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            policy=_policy(scripts),
            scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own files, which hold no user text
            style=Markup(_asset("report.css")),  # noqa: S704 - as above
            data=Markup(script_json(document)),  # noqa: S704 - script_json lets no text end the element
            summary=result.overview,
            names=[_named(capture.path) for capture in result.overview.captures],
            figures={name: [_shown(figure) for figure in group] for name, group in figures.items()},
            counted=[phase for phase in result.overview.phases if phase.counters],
            ranks=devices,
            formulas=FORMULAS,
            defaults=list(defaults(result.ceilings)),
            classes=CLASS_COLOURS,
            version=_version(),
        )
    )


def _named(path: str) -> str:
    """A capture by its file's name, or by its folder's where every run's file is called so."""
    file = PurePath(path)
    return f"{file.parent.name}/{file.name}" if file.name in {TIMING_TRACE, SHAPES_TRACE} else file.name


def _shown(figure: Figure) -> dict[str, str]:
    return {"key": figure.key, "title": figure.title, "reading": figure.reading}


def _version() -> str:
    try:
        return version("tracekit-llm")
    except PackageNotFoundError:
        return "(run from its source)"


def _asset(name: str) -> str:
    return (files("tracekit.report.html") / name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """A content security policy that allows these scripts and no other, no network and no eval."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
