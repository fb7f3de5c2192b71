"""The templates of the HTML renderings."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from tracekit.report import wording
from tracekit.units import duration, percent, plain, si


def environment() -> Environment:
    """Templates with everything escaped, and the words and numbers of every rendering."""
    made = Environment(
        loader=PackageLoader("tracekit.report.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"duration": duration, "percent": percent, "plain": plain, "si": si}
    made.globals["wording"] = wording
    return made
