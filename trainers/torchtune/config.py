"""The trainer's configuration: one frozen value, resolved once (`resolve.py`), with the names of the command line.

`model.lora_rank=8` on the command line is `config.model.lora_rank` here, in the printed configuration and in
config.yaml.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainyard.contract import paths

Dtype = Literal["auto", "fp32", "bf16"]
Device = Literal["auto", "cpu", "cuda"]
Method = Literal["lora", "full"]
Schedule = Literal["cosine", "linear", "constant"]
Target = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The adapter that is trained on the model of `checkpointer.checkpoint_dir`.

    torchtune's spelling of the targets is understood too: model.lora_attn_modules, apply_lora_to_mlp,
    apply_lora_to_output.
    """

    lora_rank: int = 8
    """Rank of the adapter's matrices (r in PEFT). More learns more and costs more."""
    lora_alpha: float = 16.0
    """Strength of the adapter: its product is scaled by alpha / rank. Twice the rank is the usual choice."""
    lora_dropout: float = 0.0
    """Probability of dropping an element of an adapter's input while training."""
    target_modules: tuple[Target, ...] = ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """The linear layers that get an adapter; the default is that of the Kubeflow SDK and of torchtune's configs."""
    use_dora: bool = False
    """Learn magnitude and direction of each weight apart (DoRA)."""
    use_rslora: bool = False
    """Scale by alpha / sqrt(rank), which keeps high ranks from learning too slowly (rsLoRA)."""
    quantize_base: bool = False
    """Keep the frozen base weights in 4 bits, NF4 (QLoRA)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetConfig:
    """Instruction data; `rows.py` says which files are read, `instruct.py` how a prompt is made."""

    data_dir: Path = Path(paths.DATASET)
    """Folder (or file) where the dataset initializer staged the data; searched with all folders below it."""
    data_files: tuple[str, ...] = ()
    """Files or patterns below data_dir, or absolute; empty: all data files of data_dir."""
    source: str | None = None
    """Format: parquet or json (JSON and JSONL); None: by each file's ending."""
    split: str = "train"
    """Name of the split, with a range if wanted: train[:5%]."""
    train_on_input: bool = False
    """Whether the prompt's tokens count in the loss."""
    new_system_prompt: str | None = None
    """Text to put before every prompt."""
    column_map: dict[str, str] = field(default_factory=dict)
    """Our column name to the data's: {'input': 'question', 'output': 'answer'}."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """The model's own tokenizer."""

    path: Path | None = None
    """tokenizer.json, or another file of its folder; None: that of the model directory."""
    max_seq_len: int | None = None
    """Longer rows lose their end, tokens; None: the length that the model was made for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointerConfig:
    """Where the base model is."""

    checkpoint_dir: Path = Path(paths.MODEL)
    """A Hugging Face model directory, staged by the model initializer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    """AdamW."""

    lr: float | None = None
    """Highest learning rate; None: 3e-4 for adapters, 2e-5 for a full fine-tune, torchtune's values."""
    weight_decay: float = 0.01
    """Decoupled weight decay."""
    betas: tuple[float, ...] = (0.9, 0.999)
    """Decay of the running mean of gradients and of their squares."""
    eps: float = 1e-8
    """Keeps the division by the root of the squares from blowing up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleConfig:
    """How the learning rate moves over the steps."""

    name: Schedule | None = None
    """Fall to zero along a cosine or a line, or stay; None: cosine for adapters, constant for a full fine-tune."""
    num_warmup_steps: int | None = None
    """Steps of the linear rise at the start; None: a tenth of all steps, at most 100, and none when constant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Everything that a fine-tune is determined by, besides model and data."""

    method: Method
    """Train an adapter (lora) or all weights (full); the recipe's name decides, LORA_CONFIG turns full into lora."""
    output_dir: Path = Path(paths.OUTPUT)
    """Where adapter, merged model, metrics and picture go."""
    device: Device = "auto"
    """auto: CUDA where there is one, else CPU."""
    dtype: Dtype = "auto"
    """Of the base weights and the computation; auto: bf16 on a device that computes in it, else fp32."""
    batch_size: int = 4
    """Rows in one forward pass of one process."""
    gradient_accumulation_steps: int = 1
    """Forward passes of each process before a step of the optimizer."""
    epochs: int = 1
    """Passes over the data."""
    max_steps_per_epoch: int | None = None
    """Stop each epoch after so many steps; None: at its end."""
    seed: int = 0
    """Seeds the adapter's first values, the order of the rows and the dropout."""
    shuffle: bool = True
    """Whether each epoch takes the rows in an order of its own."""
    clip_grad_norm: float | None = None
    """Scale gradients down to this norm; None: leave them."""
    log_every_n_steps: int = 1
    """A line of metrics.jsonl every so many steps."""
    enable_activation_checkpointing: bool = False
    """Recompute each layer's activations in the backward pass: about a third more time for far less memory."""
    save_merged: bool | None = None
    """Also write the whole tuned model as transformers loads it; None: only for a full fine-tune."""
    model: ModelConfig | None = None
    """The adapter; None for a full fine-tune, which has none."""
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """The data."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """The tokenizer."""
    checkpointer: CheckpointerConfig = field(default_factory=CheckpointerConfig)
    """The base model."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimizer."""
    lr_scheduler: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The learning rate over the steps."""
