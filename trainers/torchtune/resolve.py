"""Resolve the configuration: defaults < config < LORA_CONFIG < key=value.

`--config` is `auto` (nothing but defaults: all else is read from the model directory), a YAML file, or the name of one
of torchtune's own configs, of which the figures of the training are taken and the paths and components are not. Every
key is ours (`config.py`), an alias of torchtune's, or one that torchtune has and we accept at the values listed in
`_FIXED`. Nothing is ignored silently: an unknown key, or one that could change nothing, is an error.
"""

import dataclasses
import difflib
import importlib.util
import json
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import yaml

from trainyard.contract import env
from trainyard.contract.errors import ConfigError, UnsupportedError
from trainyard.trainers.torchtune.config import Config, ModelConfig, Target
from trainyard.trainers.torchtune.values import convert, parse

RECIPES: Final = {
    "lora_finetune_single_device": "lora",
    "lora_finetune_distributed": "lora",
    "full_finetune_single_device": "full",
    "full_finetune_distributed": "full",
}
"""The recipes that are ours, and their methods. How many processes run is for the command line, not for the name."""

_ATTENTION: Final = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "output_proj": "o_proj"}
_MLP: Final = ("gate_proj", "up_proj", "down_proj")
_TARGETS: Final[tuple[str, ...]] = get_args(Target)
_ALIASES: Final = ("model.lora_attn_modules", "model.apply_lora_to_mlp", "model.apply_lora_to_output")

_ANY: Final = object()
_INSTRUCT: Final = ("instruct_dataset", "alpaca_dataset", "alpaca_cleaned_dataset")
_FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    # What the model directory decides here, and a component names there.
    "model._component_": (_ANY,),
    "tokenizer._component_": (_ANY,),
    "tokenizer.merges_file": (_ANY,),
    "checkpointer._component_": (_ANY,),
    "checkpointer.checkpoint_files": (_ANY,),
    "checkpointer.model_type": (_ANY,),
    "checkpointer.output_dir": (_ANY,),
    "checkpointer.adapter_checkpoint": (None,),
    "checkpointer.recipe_checkpoint": (None,),
    "dataset._component_": tuple(f"torchtune.datasets.{name}" for name in _INSTRUCT),
    "loss._component_": (
        "torchtune.modules.loss.CEWithChunkedOutputLoss",
        "torchtune.modules.loss.LinearCrossEntropyLoss",
        "torch.nn.CrossEntropyLoss",
    ),
    "optimizer._component_": ("torch.optim.AdamW",),
    "optimizer.fused": (True, False, None),
    "lr_scheduler._component_": ("torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",),
    # What is always so here.
    "metric_logger": (_ANY,),
    "profiler": (_ANY,),
    "log_peak_memory_stats": (True, False),
    "save_adapter_weights_only": (True, False),
    "profiler.enabled": (False,),
    # What is not there yet, or for one process makes no difference.
    "compile": (False,),
    "dataset.packed": (False,),
    "enable_activation_offloading": (False,),
    "fsdp_cpu_offload": (False,),
    "optimizer_in_bwd": (False,),
    "resume_from_checkpoint": (False,),
    "tensor_parallel_dim": (1,),
    "tokenizer.prompt_template": (None,),
}
"""Keys of torchtune's that have no field here, and the values at which they mean what happens anyway."""
_FREE_SECTIONS: Final = ("metric_logger", "profiler")
"""Sections of which any key may be given: what they set up is always there, or never."""
_VARIABLE: Final = re.compile(r"\$\{([\w.]+)\}")

_OF_NAMED_CONFIG: Final = frozenset(
    """batch_size epochs gradient_accumulation_steps max_steps_per_epoch seed shuffle clip_grad_norm log_every_n_steps
    enable_activation_checkpointing optimizer.lr optimizer.weight_decay lr_scheduler.num_warmup_steps model.lora_rank
    model.lora_alpha model.lora_dropout model.use_dora model.quantize_base""".split()
) | set(_ALIASES)
"""What is taken of torchtune's own configs: the rest are places of its authors' machines and its own components."""

_PEFT: Final = {
    "r": "model.lora_rank",
    "lora_alpha": "model.lora_alpha",
    "lora_dropout": "model.lora_dropout",
    "target_modules": "model.target_modules",
    "use_dora": "model.use_dora",
    "use_rslora": "model.use_rslora",
}
_PEFT_FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    "bias": ("none",),
    "task_type": ("CAUSAL_LM", None),
    "peft_type": ("LORA", None),
    "inference_mode": (False,),
    "fan_in_fan_out": (False,),
    "init_lora_weights": (True,),
    "modules_to_save": (None,),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """A value, where it came from, and how it was written there."""

    value: Any
    origin: str
    text: str


_Layer = dict[str, _Given]


def resolve(
    recipe: str, config: str, overrides: Sequence[str], environ: Mapping[str, str]
) -> tuple[Config, tuple[str, ...]]:
    """Resolve the configuration of one of our recipes; gives it and sentences that the user should read.

    Raises ConfigError naming the key, what was found and what is near; UnsupportedError for what torchtune has and we
    do not.
    """
    lora_config = _lora_config(environ)
    method = RECIPES[recipe]
    notes = []
    if lora_config and method == "full":
        method = "lora"
        notes.append(f"{env.LORA_CONFIG} is set: recipe {recipe} trains an adapter, not all weights")
    layers = [_config_layer(config), lora_config, _override_layer(overrides)]
    if method == "full":
        # A named config may well be one for adapters; the figures of the adapter are not meant then.
        _refuse_adapter_keys(layers[2], recipe)
        layers[0] = {key: given for key, given in layers[0].items() if not key.startswith("model.")}
    return _build(method, layers), tuple(notes)


def _refuse_adapter_keys(layer: _Layer, recipe: str) -> None:
    meaningless = sorted(key for key in layer if key.startswith("model.") and key != "model._component_")
    if meaningless:
        raise ConfigError(
            f"{', '.join(meaningless)}: means nothing to {recipe}, which trains all weights; use "
            f"{recipe.replace('full', 'lora')}, or set {env.LORA_CONFIG}"
        )


def _build(method: str, layers: Iterable[_Layer]) -> Config:
    flat: dict[str, Any] = {}
    targets = frozenset[str](ModelConfig().target_modules)
    for layer in layers:
        targets = _targets(targets, {key: given for key, given in layer.items() if given.value is not None})
        for key, given in layer.items():
            if given.value is None:
                flat.pop(key, None)  # An empty value means the default, as it does in torchtune's configs.
            elif key in _FIELDS and key != "model.target_modules":
                flat[key] = convert(given.value, _FIELDS[key], f"{key} ({given.origin})", given.text)
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    top: dict[str, Any] = {"method": method}
    for key, value in flat.items():
        section, dot, name = key.partition(".")
        if dot:
            sections[section][name] = value
        else:
            top[key] = value
    if method == "lora":
        sections["model"]["target_modules"] = tuple(name for name in _TARGETS if name in targets)
    else:
        del sections["model"]
    for name, values in sections.items():
        top[name] = _SECTIONS[name](**values)
    return _checked(Config(**top))


def _targets(before: frozenset[str], layer: _Layer) -> frozenset[str]:
    """Apply the spellings of the adapter's targets that one layer uses."""
    now = before
    if "model.target_modules" in layer:
        given = layer["model.target_modules"]
        value = [name for name in _TARGETS if name != "lm_head"] if given.value == "all-linear" else given.value
        now = frozenset(convert(value, tuple[Target, ...], f"target_modules ({given.origin})", given.text))
    if "model.lora_attn_modules" in layer:
        given = layer["model.lora_attn_modules"]
        place = f"model.lora_attn_modules ({given.origin})"
        names = convert(given.value, tuple[str, ...], place, given.text)
        wrong = [name for name in names if name not in _ATTENTION]
        if wrong:
            raise ConfigError(f"{place}: expected some of {', '.join(_ATTENTION)}, got {wrong[0]!r}")
        now = (now - set(_ATTENTION.values())) | {_ATTENTION[name] for name in names}
    for key, names in (("model.apply_lora_to_mlp", _MLP), ("model.apply_lora_to_output", ("lm_head",))):
        if key in layer:
            given = layer[key]
            wanted = convert(given.value, bool, f"{key} ({given.origin})", given.text)
            now = now | set(names) if wanted else now - set(names)
    return now


def _checked(config: Config) -> Config:
    """Refuse values of the right type that make no sense."""
    problems = []

    def at_least(key: str, value: float | None, least: float) -> None:
        if value is not None and not value >= least:
            problems.append(f"{key}: expected at least {least}, got {value}")

    at_least("batch_size", config.batch_size, 1)
    at_least("gradient_accumulation_steps", config.gradient_accumulation_steps, 1)
    at_least("epochs", config.epochs, 1)
    at_least("max_steps_per_epoch", config.max_steps_per_epoch, 1)
    at_least("log_every_n_steps", config.log_every_n_steps, 1)
    at_least("seed", config.seed, 0)
    at_least("tokenizer.max_seq_len", config.tokenizer.max_seq_len, 2)
    at_least("lr_scheduler.num_warmup_steps", config.lr_scheduler.num_warmup_steps, 0)
    at_least("optimizer.weight_decay", config.optimizer.weight_decay, 0)
    for key, value in (("optimizer.lr", config.optimizer.lr), ("clip_grad_norm", config.clip_grad_norm)):
        if value is not None and not 0 < value < float("inf"):
            problems.append(f"{key}: expected a number above 0, got {value}")
    if len(config.optimizer.betas) != 2 or not all(0 <= beta < 1 for beta in config.optimizer.betas):
        problems.append(
            f"optimizer.betas: expected two numbers of at least 0 and below 1, got {config.optimizer.betas}"
        )
    if config.model is not None:
        at_least("model.lora_rank", config.model.lora_rank, 1)
        if not config.model.target_modules:
            problems.append("model.target_modules: expected at least one layer, got none")
        if not 0 <= config.model.lora_dropout < 1:
            problems.append(f"model.lora_dropout: expected at least 0 and below 1, got {config.model.lora_dropout}")
    if problems:
        raise ConfigError("; ".join(problems))
    return config


# The layers -----------------------------------------------------------------------------------------------------------


def _override_layer(overrides: Sequence[str]) -> _Layer:
    layer: _Layer = {}
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"command line: expected key=value, got {word!r}")
        _enter(layer, _key(key), _Given(parse(text), "command line", repr(text)), strict=True)
    return layer


def _config_layer(config: str) -> _Layer:
    if config == "auto":
        return {}
    path = Path(config)
    named = None if path.is_file() else _named_config(config)
    if named is None and not path.is_file():
        folder = _torchtune_configs()
        names = [str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml")] if folder else []
        raise ConfigError(f"--config: {config!r} is neither auto, nor a file, nor a name{_near(config, names)}")
    raw = _read_yaml(named or path)
    layer: _Layer = {}
    flat = dict(_flatten(raw))
    variables = {name for value in flat.values() if isinstance(value, str) for name in _VARIABLE.findall(value)}
    for key, value in flat.items():
        if named is not None and (key not in _OF_NAMED_CONFIG or value is None):
            continue
        if key in variables and not _is_known(key):
            continue  # A name of the file's own, there only to be put into other values.
        value = _interpolate(value, flat, config)
        _enter(layer, key, _Given(value, f"config {config}", repr(value)), strict=named is None)
    return layer


def _named_config(name: str) -> Path | None:
    folder = _torchtune_configs()
    if folder is None or not re.fullmatch(r"[\w.\-]+(/[\w.\-]+)*", name):
        return None
    file = folder / f"{name}.yaml"
    return file if file.is_file() else None


def _torchtune_configs() -> Path | None:
    """Find the folder of torchtune's own configs, without importing it."""
    spec = importlib.util.find_spec("recipes")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(folders[0], "configs") if folders else None


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: cannot read {str(file)!r}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"--config: {str(file)!r} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"--config: {str(file)!r}: expected a mapping of keys, found {type(raw).__name__}")
    return raw


def _flatten(raw: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in raw.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and not prefix:
            yield from _flatten(value, f"{key}.")
        else:
            yield _key(key), value


def _interpolate(value: Any, flat: Mapping[str, Any], config: str) -> Any:
    """Put in other keys' values for `${key}`, as torchtune's configs write them."""
    if not isinstance(value, str):
        return value

    def put(match: re.Match[str]) -> str:
        if not isinstance(flat.get(match[1]), str | int | float):
            raise ConfigError(f"--config {config}: {match[0]} names no value of the file")
        return str(flat[match[1]])

    return _VARIABLE.sub(put, value)


def _lora_config(environ: Mapping[str, str]) -> _Layer:
    text = environ.get(env.LORA_CONFIG, "").strip()
    if not text:
        return {}
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{env.LORA_CONFIG}: expected a JSON object, got {text!r} ({error})") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{env.LORA_CONFIG}: expected a JSON object, got {text!r}")
    layer: _Layer = {}
    for name, value in raw.items():
        given = _Given(value, env.LORA_CONFIG, json.dumps(value))
        if name in _PEFT:
            layer[_PEFT[name]] = given
        elif name not in _PEFT_FIXED:
            raise ConfigError(f"{env.LORA_CONFIG}: unknown name {name!r}{_near(name, (*_PEFT, *_PEFT_FIXED))}")
        elif value not in _PEFT_FIXED[name]:
            raise UnsupportedError(
                f"{env.LORA_CONFIG}: {name}: {given.text} is not supported; {_only(_PEFT_FIXED[name])}"
            )
    return layer


def _enter(layer: _Layer, key: str, given: _Given, *, strict: bool) -> None:
    """Enter a key of ours; check that one of torchtune's has a value that changes nothing here."""
    if key in _FIELDS or key in _ALIASES:
        layer[key] = given
        return
    if not _is_known(key):
        raise ConfigError(f"{key} ({given.origin}): unknown key{_near(key, (*_FIELDS, *_ALIASES, *_FIXED))}")
    allowed = _FIXED[key] if key in _FIXED else _FIXED[_section(key)]
    if strict and _ANY not in allowed and given.value not in allowed:
        raise UnsupportedError(f"{key} ({given.origin}): {given.text} is not supported; {_only(allowed)}")


def _is_known(key: str) -> bool:
    return key in _FIELDS or key in _ALIASES or key in _FIXED or _section(key) in _FREE_SECTIONS


def _section(key: str) -> str:
    return key.partition(".")[0]


def _key(key: str) -> str:
    """Spell `dataset=torchtune.datasets.x` as the component that it names."""
    return f"{key}._component_" if f"{key}._component_" in _FIXED else key


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f"; near it: {', '.join(near)}" if near else ""


def _only(allowed: tuple[Any, ...]) -> str:
    return f"supported: {', '.join(str(value) for value in allowed)}"


def _fields() -> tuple[dict[str, Any], dict[str, Any]]:
    """Collect the dotted keys of Config with their types, and its sections with their classes."""
    fields: dict[str, Any] = {}
    sections: dict[str, Any] = {}
    for name, kind in get_type_hints(Config).items():
        plain = next((part for part in get_args(kind) if dataclasses.is_dataclass(part)), kind)
        if dataclasses.is_dataclass(plain) and not isinstance(kind, types.GenericAlias):
            sections[name] = plain
            fields.update({f"{name}.{inner}": hint for inner, hint in get_type_hints(plain).items()})
        elif name != "method":
            fields[name] = kind
    return fields, sections


_FIELDS, _SECTIONS = _fields()
