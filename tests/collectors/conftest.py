"""What the collector tests share: a model that runs in milliseconds."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from collectortools import Recorder


@pytest.fixture
def progress() -> Recorder:
    return Recorder()


@pytest.fixture(scope="session")
def tiny_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama-shaped configuration of a few thousand parameters."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny-llama"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,'
        '"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 96}'
    )
    return folder
