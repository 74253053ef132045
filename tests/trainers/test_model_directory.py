"""config.json to a model's shape, and what is refused with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import BadDataError, SourceNotFoundError, TrainyardError, UnsupportedError
from trainyard.trainers.torchtune.model_directory import ModelShape, RopeScaling, read_shape

LLAMA_3_2_1B = {
    "model_type": "llama",
    "attention_bias": False,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN_2_5_1_5B = {
    "model_type": "qwen2",
    "hidden_act": "silu",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "max_position_embeddings": 32768,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}


def shape_of(folder: Path, config: Any) -> ModelShape:
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return read_shape(folder)


def test_llama_3_2_1b_is_read_whole(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, LLAMA_3_2_1B)
    assert shape.parameter_count() == 1_235_814_400  # What its model card and transformers count.
    assert shape.rope_scaling == RopeScaling(
        factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
    )
    assert (shape.rope_theta, shape.tied_embeddings, shape.dtype) == (500000.0, True, "bfloat16")


def test_qwen_2_5_1_5b_is_read_whole(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, QWEN_2_5_1_5B)
    assert shape.parameter_count() == 1_543_714_304
    assert (shape.qkv_bias, shape.output_bias, shape.head_dim) == (True, False, 128)


def test_rope_is_read_as_transformers_5_writes_it(tmp_path: Path) -> None:
    config = {name: value for name, value in LLAMA_3_2_1B.items() if not name.startswith("rope")}
    config["rope_parameters"] = {**LLAMA_3_2_1B["rope_scaling"], "rope_theta": 500000.0}  # type: ignore[dict-item]
    assert shape_of(tmp_path, config) == shape_of(tmp_path, LLAMA_3_2_1B)


@pytest.mark.parametrize(
    ("change", "error", "part"),
    [
        (
            {"model_type": "mamba"},
            UnsupportedError,
            "model_type 'mamba' is not supported; supported families: llama, qwen2",
        ),
        ({"hidden_act": "gelu"}, UnsupportedError, "hidden_act: 'gelu'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, UnsupportedError, "supported: default, linear, llama3"),
        ({"quantization_config": {"bits": 4}}, UnsupportedError, "quantised already"),
        ({"hidden_size": "2048"}, BadDataError, "hidden_size: expected a positive integer, found '2048'"),
        ({"hidden_size": None}, BadDataError, "hidden_size: expected a positive integer, found None"),
        ({"num_key_value_heads": 5}, BadDataError, "not a multiple of num_key_value_heads 5"),
        ({"tie_word_embeddings": "yes"}, BadDataError, "tie_word_embeddings: expected true or false"),
        ({"rms_norm_eps": "small"}, BadDataError, "rms_norm_eps: expected a number"),
    ],
)
def test_what_cannot_be_built_is_refused_with_file_and_field(
    tmp_path: Path, change: dict[str, Any], error: type[TrainyardError], part: str
) -> None:
    with pytest.raises(error) as raised:
        shape_of(tmp_path, {**LLAMA_3_2_1B, **change})
    assert part in str(raised.value)
    assert str(tmp_path / "config.json") in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_config_json_that_is_none_is_bad_data(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadDataError, match=r"config\.json"):
        shape_of(tmp_path, text)


def test_a_folder_without_a_model_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"no config\.json in it"):
        read_shape(tmp_path)
    with pytest.raises(SourceNotFoundError, match="no such folder"):
        read_shape(tmp_path / "missing")
