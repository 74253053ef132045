"""A Hugging Face model directory: which family it is, its sizes, and the files that belong to it.

    config.json                          the shape (`read_shape`); the one file that decides
    model.safetensors | model.safetensors.index.json + shards | pytorch_model.bin ...     (`weights.py`)
    tokenizer.json, tokenizer_config.json                                                 (`tokenizer.py`)

A family is one entry of `FAMILIES`: a function from config.json to `ModelShape`. What torchtune's blocks cannot
express is refused by name, never approximated.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.contract.errors import BadDataError, SourceNotFoundError, UnsupportedError

CONFIG: Final = "config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class RopeScaling:
    """Llama 3's frequency scaling, as transformers' `rope_scaling` of type llama3 spells it."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """All that a decoder of the Llama kind is made of."""

    family: str
    """`model_type` of config.json, such as llama or qwen2."""
    vocab_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    embed_dim: int
    head_dim: int
    intermediate_dim: int
    max_position_embeddings: int
    """Longest sequence that the model was made for, tokens."""
    norm_eps: float
    rope_theta: float
    rope_linear_factor: float = 1.0
    """Positions are divided by this (`rope_scaling` of type linear)."""
    rope_scaling: RopeScaling | None = None
    """None: no scaling by frequency."""
    tied_embeddings: bool
    """Whether the output projection is the embedding matrix."""
    qkv_bias: bool
    output_bias: bool
    """Bias of the attention's output projection."""
    mlp_bias: bool
    dtype: str
    """The dtype that config.json names for the weights, such as bfloat16; float32 when it names none."""

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Give the sizes, out x in, of the matrices of one layer."""
        q_dim, kv_dim = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "q_proj": (q_dim, self.embed_dim),
            "k_proj": (kv_dim, self.embed_dim),
            "v_proj": (kv_dim, self.embed_dim),
            "o_proj": (self.embed_dim, q_dim),
            "gate_proj": (self.intermediate_dim, self.embed_dim),
            "up_proj": (self.intermediate_dim, self.embed_dim),
            "down_proj": (self.embed_dim, self.intermediate_dim),
        }

    def matrix_parameters(self) -> int:
        """Count the parameters of the matrices of all layers."""
        return self.num_layers * sum(out_dim * in_dim for out_dim, in_dim in self.matrices().values())

    def parameter_count(self) -> int:
        """Count the parameters of the base model."""
        sizes = self.matrices()
        biased = self.qkv_bias * ["q_proj", "k_proj", "v_proj"] + self.output_bias * ["o_proj"]
        biased += self.mlp_bias * ["gate_proj", "up_proj", "down_proj"]
        biases = sum(sizes[name][0] for name in biased)
        embeddings = self.vocab_size * self.embed_dim * (1 if self.tied_embeddings else 2)
        norms = (2 * self.num_layers + 1) * self.embed_dim
        return embeddings + self.matrix_parameters() + self.num_layers * biases + norms


class _Fields:
    """Typed reads from config.json; an error names the file, the field, and what was found."""

    def __init__(self, file: Path, raw: Mapping[str, Any]) -> None:
        self.file = file
        self.raw = raw

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.raw.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadDataError(f"{self.file}: {name}: expected a positive integer, found {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise BadDataError(f"{self.file}: {name}: expected a number, found {value!r}")
        return float(value)

    def boolean(self, name: str, default: bool) -> bool:
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadDataError(f"{self.file}: {name}: expected true or false, found {value!r}")
        return value

    def refuse_unless(self, name: str, allowed: tuple[Any, ...]) -> None:
        value = self.raw.get(name)
        if value is not None and value not in allowed:
            raise UnsupportedError(
                f"{self.file}: {name}: {value!r} is not supported for this family; "
                f"supported: {', '.join(repr(choice) for choice in allowed)}"
            )


def _rope(fields: _Fields) -> tuple[float, float, RopeScaling | None]:
    """Read theta, the linear factor and the scaling by frequency, in transformers 4's and 5's spelling."""
    parameters = fields.raw.get("rope_parameters") or fields.raw.get("rope_scaling") or {}
    if not isinstance(parameters, dict):
        raise BadDataError(f"{fields.file}: rope_scaling: expected an object, found {parameters!r}")
    inner = _Fields(fields.file, parameters)
    theta = inner.number("rope_theta", fields.number("rope_theta", 10_000.0))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "linear":
        return theta, inner.number("factor", 1.0), None
    if kind == "llama3":
        return (
            theta,
            1.0,
            RopeScaling(
                factor=inner.number("factor", 8.0),
                low_freq_factor=inner.number("low_freq_factor", 1.0),
                high_freq_factor=inner.number("high_freq_factor", 4.0),
                original_max_position_embeddings=inner.integer("original_max_position_embeddings", 8192),
            ),
        )
    if kind != "default":
        raise UnsupportedError(
            f"{fields.file}: rope_scaling type {kind!r} is not supported; supported: default, linear, llama3"
        )
    return theta, 1.0, None


def _shape(fields: _Fields, *, qkv_bias: bool, output_bias: bool, mlp_bias: bool, tied: bool) -> ModelShape:
    num_heads, embed_dim = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    num_kv_heads = fields.integer("num_key_value_heads", num_heads)
    theta, linear_factor, scaling = _rope(fields)
    if "head_dim" not in fields.raw and embed_dim % num_heads:
        raise BadDataError(
            f"{fields.file}: hidden_size {embed_dim} is not a multiple of num_attention_heads {num_heads}, "
            "and no head_dim is given"
        )
    if num_heads % num_kv_heads:
        raise BadDataError(
            f"{fields.file}: num_attention_heads {num_heads} is not a multiple of num_key_value_heads {num_kv_heads}"
        )
    dtype = fields.raw.get("dtype") or fields.raw.get("torch_dtype") or "float32"
    return ModelShape(
        family=str(fields.raw["model_type"]),
        vocab_size=fields.integer("vocab_size"),
        num_layers=fields.integer("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        embed_dim=embed_dim,
        head_dim=fields.integer("head_dim", embed_dim // num_heads),
        intermediate_dim=fields.integer("intermediate_size"),
        max_position_embeddings=fields.integer("max_position_embeddings", 2048),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_linear_factor=linear_factor,
        rope_scaling=scaling,
        tied_embeddings=fields.boolean("tie_word_embeddings", tied),
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        mlp_bias=mlp_bias,
        dtype=str(dtype).removeprefix("torch."),
    )


def _llama(fields: _Fields) -> ModelShape:
    fields.refuse_unless("hidden_act", ("silu",))
    bias = fields.boolean("attention_bias", False)
    return _shape(fields, qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False), tied=False)


def _qwen2(fields: _Fields) -> ModelShape:
    fields.refuse_unless("hidden_act", ("silu",))
    fields.refuse_unless("use_sliding_window", (False,))
    return _shape(fields, qkv_bias=True, output_bias=False, mlp_bias=False, tied=False)


FAMILIES: Final[Mapping[str, Callable[[_Fields], ModelShape]]] = {"llama": _llama, "qwen2": _qwen2}
"""`model_type` of config.json to the function that reads its shape. A new family is a new entry."""


def read_shape(directory: Path) -> ModelShape:
    """Read a model directory's shape from its config.json.

    Raises SourceNotFoundError when there is none, BadDataError when it cannot be used, UnsupportedError for a family,
    an activation or a rope scaling that the blocks do not have.
    """
    file = directory / CONFIG
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        what = f"no {CONFIG} in it" if directory.is_dir() else "no such folder"
        raise SourceNotFoundError(
            f"checkpointer.checkpoint_dir: {str(directory)!r}: {what}; expected a Hugging Face model directory"
        ) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise BadDataError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("model_type"), str):
        raise BadDataError(f"{file}: expected an object with a model_type, as transformers writes it")
    family = FAMILIES.get(raw["model_type"])
    if family is None:
        raise UnsupportedError(
            f"{file}: model_type {raw['model_type']!r} is not supported; supported families: {', '.join(FAMILIES)}"
        )
    if raw.get("quantization_config"):
        raise UnsupportedError(f"{file}: the weights are quantised already; expected those in full precision")
    return family(_Fields(file, raw))
