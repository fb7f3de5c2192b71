"""What every test may use: the folder of tests on the path, so that builders import by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switch that records golden files anew."""
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files of the samples anew"
    )
