"""What every test may use: the folder of tests on the path, so that builders import by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No calibration of this machine reaches a test, and none of a test reaches this machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switch that records golden files anew."""
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files of the samples anew"
    )
