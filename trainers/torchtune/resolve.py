"""Resolve the configuration: defaults < config < LORA_CONFIG < key=value.

`--config` is `auto` (nothing but defaults: all else is read from the model directory), a YAML file, or the name of one
of torchtune's own configs, of which the figures of the training are taken and the paths and components are not.
`keys.py` says which keys there are. Nothing is ignored silently: an unknown key, or one that could change nothing, is
an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from trainyard.contract import env
from trainyard.contract.errors import ConfigError
from trainyard.trainers.torchtune import keys, layers
from trainyard.trainers.torchtune.config import Config, ModelConfig, Target
from trainyard.trainers.torchtune.layers import Layer
from trainyard.trainers.torchtune.values import convert

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


def resolve(
    recipe: str, config: str, overrides: Sequence[str], environ: Mapping[str, str]
) -> tuple[Config, tuple[str, ...]]:
    """Resolve the configuration of one of our recipes; gives it and sentences that the user should read.

    Raises ConfigError naming the key, what was found and what is near; UnsupportedError for what torchtune has and we
    do not.
    """
    lora_config = layers.of_lora_config(environ)
    method = RECIPES[recipe]
    notes = []
    if lora_config and method == "full":
        method = "lora"
        notes.append(f"{env.LORA_CONFIG} is set: recipe {recipe} trains an adapter, not all weights")
    given = (layers.of_config(config, method), lora_config, layers.of_overrides(overrides))
    if method == "full":
        _refuse_adapter_keys(given, recipe)
    return _build(method, given), tuple(notes)


def _refuse_adapter_keys(given: Iterable[Layer], recipe: str) -> None:
    meaningless = sorted(key for layer in given for key in layer if key.startswith("model."))
    if meaningless:
        raise ConfigError(
            f"{', '.join(meaningless)}: means nothing to {recipe}, which trains all weights; use "
            f"{recipe.replace('full', 'lora')}, or set {env.LORA_CONFIG}"
        )


def _build(method: str, given_layers: Iterable[Layer]) -> Config:
    flat: dict[str, Any] = {}
    targets = frozenset[str](ModelConfig().target_modules)
    for layer in given_layers:
        targets = _targets(targets, {key: given for key, given in layer.items() if given.value is not None})
        for key, given in layer.items():
            if given.value is None:
                flat.pop(key, None)  # An empty value means the default, as it does in torchtune's configs.
            elif key in keys.FIELDS and key != "model.target_modules":
                flat[key] = convert(given.value, keys.FIELDS[key], f"{key} ({given.origin})", given.text)
    sections: dict[str, dict[str, Any]] = {name: {} for name in keys.SECTIONS}
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
        top[name] = keys.SECTIONS[name](**values)
    return _checked(Config(**top))


def _targets(before: frozenset[str], layer: Layer) -> frozenset[str]:
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
