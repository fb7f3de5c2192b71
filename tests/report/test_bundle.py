"""The charts' script is made once for a version of its package."""

from pathlib import Path

import pytest

from tracekit.report.html.bundle import kept_at, vega


def test_a_kept_script_is_used_and_cannot_end_its_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_at().parent == tmp_path / "tracekit"
    kept_at().parent.mkdir()
    kept_at().write_text("a('</script><!--')", encoding="utf-8")
    assert vega.__wrapped__() == "a('<\\/script><\\!--')"


def test_a_script_is_made_where_it_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tracekit").write_text("a file stands where the folder would be", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "window.vegaEmbed" in vega.__wrapped__()
