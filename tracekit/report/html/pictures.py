"""The page's charts as pictures, for documents that cannot hold a script."""

import vl_convert

from tracekit.report.html.figure import VEGA_LITE
from tracekit.report.html.roofline import roofline_figures
from tracekit.report.result import Result

_WIDTH = 900
_SCALE = 1.5


def roofline_png(result: Result) -> bytes | None:
    """The roofline as a PNG on white; None where no kernel has known FLOPs."""
    figure = next((figure for figure in roofline_figures(result) if figure.key == "roofline"), None)
    if figure is None:
        return None
    spec = {**figure.spec, "width": _WIDTH, "background": "white", "config": {"line": {"color": "#5b6470"}}}
    # No address is allowed: a picture is made from the report's own numbers alone.
    picture: bytes = vl_convert.vegalite_to_png(
        spec, vl_version=VEGA_LITE, scale=_SCALE, allowed_base_urls=[]
    )
    return picture
