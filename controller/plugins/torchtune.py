"""TorchTune: turns the SDK's `tune run` into a whole command: rendezvous, recipe, config, and the runtime's fixed keys.

Works on runtimes with `mlPolicy.torch`, after the plugin torch, when `spec.trainer.command` is exactly `tune run`.
Which model a runtime is for says its annotation or label `trainyard/model`; without one, its name
(`torchtune-llama3.2-1b` is `llama3_2/1B`). `auto` means any model directory: our recipes read its config.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trainyard.contract import labels, names
from trainyard.controller.api.problem import Problem
from trainyard.controller.api.train_job import TrainJob
from trainyard.controller.info import Info
from trainyard.controller.resources import AUTO, Devices, devices_of, processes_per_node
from trainyard.controller.tune_command import TUNE_RUN, is_tune_run
from trainyard.controller.wiring import wire_trainer

LLAMA_3_2_1B: Final = "llama3_2/1B"
LLAMA_3_2_3B: Final = "llama3_2/3B"
LLAMA_3_3_70B: Final = "llama3_3/70B"
QWEN_2_5_1_5B: Final = "qwen2_5/1.5B"
MODELS: Final = (LLAMA_3_2_1B, LLAMA_3_2_3B, LLAMA_3_3_70B, QWEN_2_5_1_5B)
"""Models that a runtime's name may stand for."""

FIXED_KEYS: Final = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")
"""Settings that belong to the runtime: kept from its command, refused in a TrainJob's args."""

LORA_DISTRIBUTED: Final = "lora_finetune_distributed"
LORA_SINGLE_DEVICE: Final = "lora_finetune_single_device"
FULL_DISTRIBUTED: Final = "full_finetune_distributed"
FULL_SINGLE_DEVICE: Final = "full_finetune_single_device"

_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """The model that a runtime is for."""

    name: str
    """`auto`, or a family and size such as `llama3_2/1B`; empty when the runtime's name says none."""
    from_name: bool
    """Whether the runtime's name said so; then the reference's limits hold (design 5.17)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """What is asked of torchtune, with the numbers that the pods will have."""

    model: Model
    """The runtime's model."""
    nodes: int
    """Number of nodes."""
    processes: str
    """Processes a node: `auto` or a number, as PET_NPROC_PER_NODE has it."""
    devices: Devices
    """The node container's devices."""
    lora: bool
    """Adapters are trained (LoRA, or DoRA with LoRA's arguments)."""
    qlora: bool
    """Adapters are trained over a quantized base."""

    @property
    def single_device(self) -> bool:
        """Say whether one process on one device trains."""
        return self.nodes == 1 and (self.processes == "1" or self.devices.exactly_one)

    @property
    def recipe(self) -> str:
        """Choose the recipe (reference 4.3; LoRA on several nodes only where `trainyard/model` says the model)."""
        adapters = self.lora or self.qlora
        if self.single_device:
            return LORA_SINGLE_DEVICE if adapters else FULL_SINGLE_DEVICE
        if self.nodes > 1 and self.model.from_name:
            return FULL_DISTRIBUTED
        return LORA_DISTRIBUTED if adapters else FULL_DISTRIBUTED

    @property
    def config(self) -> str:
        """Choose the config's name."""
        if self.model.name == labels.MODEL_AUTO:
            return labels.MODEL_AUTO
        method = "qlora" if self.qlora else "lora" if self.lora else "full"
        if self.single_device:
            return f"{self.model.name}_{method}_single_device"
        if self.nodes > 1 and self.recipe == FULL_DISTRIBUTED:
            return f"{self.model.name}_full_multinode"
        return f"{self.model.name}_{method}"

    @property
    def needs_rendezvous(self) -> bool:
        """Say whether several processes must find each other."""
        several = self.devices.maybe_several if self.processes == AUTO else int(self.processes) > 1
        return self.nodes > 1 or several


class TorchTune:
    """Completes `tune run` on runtimes with `mlPolicy.torch`."""

    policy = "torch"

    def validate(self, info: Info, old: TrainJob | None) -> Iterator[Problem]:
        """Refuse what torchtune's recipes cannot do with this model, and settings that are the runtime's."""
        if not is_tune_run(info.train_job):
            return
        trainer = info.train_job.spec.trainer
        for index, argument in enumerate((trainer.args if trainer is not None else None) or ()):
            key = argument.split("=", 1)[0]
            if key in FIXED_KEYS:
                yield info.problem(
                    f"spec.trainer.args[{index}]",
                    f"{key!r} is managed by the runtime and must not be set, got {argument!r}",
                )
        tuning = _tuning(wire_trainer(info))
        if tuning is not None and tuning.model.from_name:
            yield from _limits(info, tuning)

    def enforce_ml_policy(self, info: Info) -> Info:
        """Write the whole command."""
        trainer = info.trainer
        node = trainer.main_container if trainer is not None else None
        tuning = _tuning(info)
        if not is_tune_run(info.train_job) or trainer is None or node is None or tuning is None:
            return info
        command = list(TUNE_RUN)
        if tuning.needs_rendezvous:
            command.append(f"--rdzv_endpoint={info.hostname(trainer)}:{names.MASTER_PORT}")
        command += [tuning.recipe, "--config", tuning.config, *_fixed_settings(info)]
        return info.with_pod_set(trainer.with_container(node.with_field("command", command)))


def model_of(info: Info) -> Model:
    """Find the runtime's model: annotation, label, or the rule for names."""
    metadata = info.runtime.metadata
    named = metadata.annotations.get(labels.MODEL) or metadata.labels.get(labels.MODEL)
    if named:
        return Model(name=named, from_name=False)
    parts = metadata.name.split("-")
    if len(parts) != 3:
        return Model(name="", from_name=True)
    return Model(name=f"{parts[1].replace('.', '_')}/{parts[2].upper()}", from_name=True)


def _tuning(info: Info) -> Tuning | None:
    """Read what is asked from an Info that has the TrainJob's values; None without a trainer's container."""
    trainer = info.trainer
    node = trainer.main_container if trainer is not None else None
    if trainer is None or node is None:
        return None
    job_trainer = info.train_job.spec.trainer
    arguments = tuple(node.manifest.get("args") or ())
    return Tuning(
        model=model_of(info),
        nodes=trainer.count,
        processes=processes_per_node(job_trainer.num_proc_per_node if job_trainer else None, node.resources),
        devices=devices_of(node.resources),
        lora=any("model.lora_attn_modules" in argument for argument in arguments),
        qlora=_is_true(arguments, "model.quantize_base") and not _is_true(arguments, "model.use_dora"),
    )


def _limits(info: Info, tuning: Tuning) -> Iterator[Problem]:
    """Find what the reference refuses for the models that it knows by their runtime's name."""
    model = tuning.model.name
    if model not in MODELS:
        yield info.problem(
            "spec.runtimeRef.name",
            f"must have a supported pretrained model, got {model or info.runtime.name!r}; "
            f"expected one of {', '.join(MODELS)}, or a runtime annotated {labels.MODEL}",
        )
        return
    if tuning.nodes > 1 and model != LLAMA_3_3_70B:
        yield info.problem("spec.trainer.numNodes", f"must be 1 for the {model} model, got {tuning.nodes}")
    if tuning.nodes > 1 and (tuning.lora or tuning.qlora):
        yield info.problem("spec.trainer.numNodes", f"LoRA is not supported multi-node, got {tuning.nodes} nodes")
    if tuning.qlora and model == QWEN_2_5_1_5B:
        yield info.problem(
            "spec.trainer.args", f"QLoRA is not supported for the {model} model, which spec.runtimeRef.name says"
        )
    if tuning.qlora and model in (LLAMA_3_2_1B, LLAMA_3_2_3B) and tuning.nodes == 1 and not tuning.single_device:
        if tuning.processes == AUTO:
            yield info.problem(
                "spec.trainer.resourcesPerNode",
                f"must have 1 GPU for QLoRA of the {model} model, "
                + (f"got {tuning.devices.accelerators}" if tuning.devices.accelerators else "got a DRA claim")
                + "; spec.trainer.numProcPerNode: 1 would use one of them",
            )
        else:
            yield info.problem(
                "spec.trainer.numProcPerNode",
                f"must be 1, or auto with 1 GPU in spec.trainer.resourcesPerNode, for QLoRA of the {model} model, "
                f"got {tuning.processes}",
            )


def _fixed_settings(info: Info) -> list[str]:
    """Take the settings that belong to the runtime from its command."""
    trainer = next(pod_set for pod_set in info.template if pod_set.ancestor == names.TRAINER)
    words = trainer.main_container.command if trainer.main_container is not None else ()
    return [word for word in words if word.split("=", 1)[0] in FIXED_KEYS]


def _is_true(arguments: tuple[str, ...], key: str) -> bool:
    return any(argument.partition("=")[0] == key and argument.partition("=")[2] in _TRUE for argument in arguments)
