"""Every row of the kernel taxonomy matches its own examples before any other row does."""

from pathlib import Path

import pytest

from tracekit.errors import RegistryError
from tracekit.taxonomy.rules import KINDS, Rule, demangle, first_match, rules
from tracekit.taxonomy.tiles import read_tile

EXAMPLES = [
    pytest.param(kind, rule, example, id=f"{kind}-{rule.word}-{example[:40]}")
    for kind in sorted(KINDS)
    for rule in rules(kind)
    for example in rule.row.texts("examples")
]


@pytest.mark.parametrize(("kind", "rule", "example"), EXAMPLES)
def test_an_example_matches_its_own_row_first(kind: str, rule: Rule, example: str) -> None:
    assert first_match(example, rules(kind)) is rule


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_row_has_an_example_and_a_source(kind: str) -> None:
    bare = [rule.row for rule in rules(kind) if not rule.row.texts("examples") or not rule.row.text("source")]
    assert bare == []


def test_a_mangled_name_is_read_and_any_other_is_left_alone() -> None:
    assert (
        demangle("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bEEvPT_")
        == "void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t>(std::bfloat16_t*)"
    )
    assert demangle("_topk_forward") == "_topk_forward"
    assert demangle("_Znot a mangled name") == "_Znot a mangled name"


def test_a_hint_without_a_weight_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        '[[row]]\nkey = "decode"\nkind = "hint"\npattern = "x"\n', encoding="utf-8"
    )
    with pytest.raises(RegistryError, match="needs a `weight`"):
        rules("hint", (tmp_path,))


TILES = [
    pytest.param(example, tile, id=f"{rule.word}-{example[:40]}")
    for rule in rules("tile")
    for example, tile in zip(rule.row.texts("examples"), rule.row.texts("tiles"), strict=True)
]


@pytest.mark.parametrize(("name", "tile"), TILES)
def test_a_tile_is_read_from_its_example(name: str, tile: str) -> None:
    found = read_tile(name, rules("tile"))
    assert found is not None
    assert found.text == tile


@pytest.mark.parametrize("row", ['pattern = "(?P<m>1)"', 'pattern = "(?P<m>1)x(?P<n>1)"\ntokens = "k"'])
def test_a_tile_without_its_sides_is_refused(row: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "mine.toml").write_text(f'[[row]]\nkey = "mine"\nkind = "tile"\n{row}\n', encoding="utf-8")
    with pytest.raises(RegistryError, match="a tile needs groups"):
        rules("tile", (tmp_path,))
