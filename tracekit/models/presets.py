"""Model presets: rows of `data/models/*.toml`, and of the user's own folders."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tracekit.errors import RegistryError, UnsupportedError
from tracekit.models.config import Latent, ModelConfig, windowed_layers
from tracekit.models.huggingface import read_hf_config

DATA = Path(__file__).parent.parent / "data" / "models"


@cache
def presets(extra: tuple[Path, ...] = ()) -> dict[str, ModelConfig]:
    """Every preset by name; folders in `extra` (as `--data` gives them) come first.

    Raises:
        RegistryError: A file is not TOML, or a row is not a model.
    """
    found: dict[str, ModelConfig] = {}
    for folder in (*(path / "models" for path in extra), DATA):
        for file in sorted(folder.glob("*.toml")):
            for config in _rows(file):
                found.setdefault(config.name, config)
    return found


def preset(name: str, extra: tuple[Path, ...] = ()) -> ModelConfig:
    """A preset by name, capitals aside.

    Raises:
        UnsupportedError: There is none.
    """
    known = presets(extra)
    by_lower = {key.lower(): config for key, config in known.items()}
    if name.lower() not in by_lower:
        hint = f"presets: {', '.join(known)}; or give a path of a Hugging Face config.json"
        raise UnsupportedError(f"no model preset {name!r}", hint=hint)
    return by_lower[name.lower()]


def resolve(model: str, extra: tuple[Path, ...] = ()) -> ModelConfig:
    """A preset's name, or the path of a Hugging Face `config.json` or of the folder around it.

    Raises:
        UnsupportedError: Neither, or an architecture that is not known.
        CaptureError: The file is unreadable.
    """
    path = Path(model)
    if model.lower().endswith(".json") or path.is_dir():
        return read_hf_config(path)
    return preset(model, extra)


def _rows(file: Path) -> list[ModelConfig]:
    try:
        rows = tomllib.loads(file.read_text(encoding="utf-8")).get("row", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RegistryError(file.name, "-", f"not readable as TOML: {error}") from error
    return [_row(file.name, values) for values in rows]


def _row(source: str, values: Mapping[str, Any]) -> ModelConfig:
    key = str(values.get("key", "?"))
    own = {name: value for name, value in values.items() if name not in {"key", "latent", "windowed_layers"}}
    try:
        latent = Latent(**values["latent"]) if "latent" in values else None
        windowed = windowed_layers(values.get("windowed_layers", "none"), int(values["layers"]))
        return ModelConfig(name=key, latent=latent, windowed=windowed, **own)
    except (KeyError, TypeError, ValueError) as error:
        raise RegistryError(source, key, f"is not a model: {error}") from error
