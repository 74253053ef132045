"""Precedence, spellings and refusals of the trainer's configuration."""

import json
from pathlib import Path

import pytest

from trainyard.contract.errors import ConfigError, UnsupportedError
from trainyard.trainers.torchtune.config import Config, ModelConfig
from trainyard.trainers.torchtune.resolve import resolve

LORA, FULL = "lora_finetune_single_device", "full_finetune_distributed"
MLP = ("gate_proj", "up_proj", "down_proj")


def resolved(*overrides: str, recipe: str = LORA, config: str = "auto", lora_config: object = None) -> Config:
    environ = {} if lora_config is None else {"LORA_CONFIG": json.dumps(lora_config)}
    return resolve(recipe, config, overrides, environ)[0]


def adapter(*overrides: str, **more: object) -> ModelConfig:
    model = resolved(*overrides, **more).model  # type: ignore[arg-type]
    assert model is not None
    return model


def test_every_argument_that_the_sdk_sends_is_understood() -> None:
    config = resolved(
        "dtype=bf16",
        "batch_size=2",
        "epochs=1",
        "loss=torchtune.modules.loss.CEWithChunkedOutputLoss",
        "dataset.data_dir=/workspace/dataset/.",
        "model.lora_rank=8",
        "model.lora_alpha=16",
        "model.lora_dropout=0.1",
        "model.quantize_base=True",
        "model.use_dora=False",
        "model.apply_lora_to_mlp=True",
        "model.apply_lora_to_output=False",
        "model.lora_attn_modules=[q_proj,v_proj,output_proj]",
        "dataset=torchtune.datasets.instruct_dataset",
        "dataset.source=parquet",
        "dataset.split=train[:5%]",
        "dataset.train_on_input=False",
        "dataset.new_system_prompt=Answer briefly.",
        "dataset.column_map={'input': 'q', 'output': 'a'}",
        "output_dir=/workspace/output",
        "tokenizer.path=/workspace/model/vocab.json",
        "tokenizer.merges_file=/workspace/model/merges.txt",
        "checkpointer.checkpoint_dir=/workspace/model",
    )
    assert (config.method, config.dtype, config.batch_size, config.epochs) == ("lora", "bf16", 2, 1)
    assert config.model == ModelConfig(
        lora_rank=8,
        lora_alpha=16.0,
        lora_dropout=0.1,
        target_modules=("q_proj", "v_proj", "o_proj", *MLP),
        quantize_base=True,
    )
    assert config.dataset.column_map == {"input": "q", "output": "a"}
    assert config.dataset.split == "train[:5%]"
    assert config.dataset.new_system_prompt == "Answer briefly."
    assert config.checkpointer.checkpoint_dir == Path("/workspace/model")


def test_key_value_beats_lora_config_beats_the_config_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  lora_rank: 4\n  lora_alpha: 5\n  lora_dropout: 0.5\nepochs: 3\n")
    config = resolved("model.lora_alpha=7", config=str(file), lora_config={"lora_alpha": 6, "lora_dropout": 0.25})
    assert config.model is not None
    assert (config.model.lora_rank, config.model.lora_alpha, config.model.lora_dropout) == (4, 7.0, 0.25)
    assert (config.epochs, config.batch_size) == (3, Config(method="lora").batch_size)


def test_lora_config_turns_a_full_recipe_into_one_for_adapters_and_says_so() -> None:
    config, notes = resolve(FULL, "auto", (), {"LORA_CONFIG": '{"r": 4, "lora_alpha": 16}'})
    assert config.method == "lora"
    assert config.model is not None
    assert config.model.lora_rank == 4
    assert len(notes) == 1
    assert "LORA_CONFIG" in notes[0]


def test_a_full_recipe_has_no_adapter() -> None:
    assert resolved(recipe=FULL).model is None


def test_the_names_of_peft_are_understood() -> None:
    model = adapter(
        lora_config={
            "r": 4,
            "lora_alpha": 8,
            "target_modules": ["q_proj", "gate_proj"],
            "use_rslora": True,
            "use_dora": True,
            "bias": "none",
            "task_type": "CAUSAL_LM",
        }
    )
    assert model.target_modules == ("q_proj", "gate_proj")
    assert model.use_rslora
    assert model.use_dora


@pytest.mark.parametrize(
    ("overrides", "lora_config", "targets"),
    [
        ((), {"target_modules": "all-linear"}, ("q_proj", "k_proj", "v_proj", "o_proj", *MLP)),
        (("model.apply_lora_to_mlp=False",), None, ("q_proj", "v_proj", "o_proj")),
        (("model.lora_attn_modules=[k_proj]",), None, ("k_proj", *MLP)),
        (("model.lora_attn_modules=[]",), None, MLP),
        (("model.lora_attn_modules=['output_proj']", "model.apply_lora_to_mlp=false"), None, ("o_proj",)),
        (("model.apply_lora_to_output=True",), {"target_modules": ["q_proj"]}, ("q_proj", "lm_head")),
        (("model.lora_attn_modules=[v_proj]",), {"target_modules": ["q_proj", "up_proj"]}, ("v_proj", "up_proj")),
        (("model.target_modules=[q_proj,down_proj]",), None, ("q_proj", "down_proj")),
    ],
)
def test_targets_are_named_in_torchtunes_and_in_pefts_way(
    overrides: tuple[str, ...], lora_config: object, targets: tuple[str, ...]
) -> None:
    assert adapter(*overrides, lora_config=lora_config).target_modules == targets


@pytest.mark.trainer
@pytest.mark.parametrize(
    "name", ["llama3_2/1B_lora_single_device", "qwen2_5/1.5B_lora", "llama3_1/8B_qlora_single_device"]
)
def test_a_named_config_of_torchtune_gives_its_figures_and_not_its_places(name: str) -> None:
    config = resolved(config=name)
    assert config.checkpointer.checkpoint_dir == Path("/workspace/model")
    assert config.output_dir == Path("/workspace/output")
    assert (config.device, config.dtype) == ("auto", "auto")
    assert config.optimizer.lr is not None
    assert config.lr_scheduler.num_warmup_steps == 100


@pytest.mark.trainer
def test_the_rank_of_a_named_config_is_taken() -> None:
    assert adapter(config="llama3_2/1B_lora_single_device").lora_rank == 64
    assert adapter("model.lora_rank=4", config="llama3_2/1B_lora_single_device").lora_rank == 4


@pytest.mark.trainer
def test_a_full_recipe_takes_a_named_config() -> None:
    assert resolved(recipe=FULL, config="llama3_2/1B_full").optimizer.lr == 2e-5


def test_a_config_copied_with_tune_cp_works(tmp_path: Path) -> None:
    file = tmp_path / "copied.yaml"
    file.write_text(
        """
output_dir: /tmp/out
base: /tmp/model
model: {_component_: torchtune.models.llama3_2.lora_llama3_2_1b, lora_attn_modules: ['q_proj'], lora_rank: 2}
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: ${base}/original/tokenizer.model
  max_seq_len: null
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: ${base}
  checkpoint_files: [model.safetensors]
  recipe_checkpoint: null
  output_dir: ${output_dir}
  model_type: LLAMA3_2
resume_from_checkpoint: False
dataset: {_component_: torchtune.datasets.alpaca_cleaned_dataset, packed: False}
seed: null
optimizer: {_component_: torch.optim.AdamW, fused: True, lr: 3e-4, betas: [0.9, 0.95]}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
metric_logger: {_component_: torchtune.training.metric_logging.DiskLogger, log_dir: "${output_dir}/logs"}
log_peak_memory_stats: True
profiler: {_component_: torchtune.training.setup_torch_profiler, enabled: False, cpu: True}
compile: False
"""
    )
    config = resolved(config=str(file))
    assert config.checkpointer.checkpoint_dir == Path("/tmp/model")
    assert config.tokenizer.path == Path("/tmp/model/original/tokenizer.model")
    assert config.optimizer.lr == 3e-4
    assert config.optimizer.betas == (0.9, 0.95)
    assert config.seed == 0


def test_a_text_that_looks_like_a_number_stays_a_text() -> None:
    assert resolved("dataset.new_system_prompt=007").dataset.new_system_prompt == "007"


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("model.lora_rnk=8", "model.lora_rnk (command line): unknown key; near it: model.lora_rank"),
        ("batchsize=8", "near it: batch_size"),
        ("optimizer.lr=1e-4x", "optimizer.lr (command line): expected a number, got '1e-4x'"),
        ("batch_size=two", "batch_size (command line): expected an integer, got 'two'"),
        ("batch_size=0", "batch_size: expected at least 1, got 0"),
        ("optimizer.lr=-1", "optimizer.lr: expected a number above 0, got -1.0"),
        ("model.lora_dropout=1", "model.lora_dropout: expected at least 0 and below 1"),
        (
            "model.lora_attn_modules=[q_proj,o_proj]",
            "expected some of q_proj, k_proj, v_proj, output_proj, got 'o_proj'",
        ),
        ("model.target_modules=[]", "expected at least one layer, got none"),
        ("dtype=fp16", "dtype (command line): expected one of auto, fp32, bf16, got 'fp16'"),
        ("epochs", "expected key=value, got 'epochs'"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_expected(word: str, part: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolved(word)
    assert part in str(raised.value)


def test_several_senseless_values_are_reported_at_once() -> None:
    with pytest.raises(ConfigError, match=r"batch_size.*epochs"):
        resolved("batch_size=0", "epochs=0")


@pytest.mark.parametrize(
    "word",
    [
        "compile=True",
        "dataset.packed=True",
        "optimizer=bitsandbytes.optim.PagedAdamW8bit",
        "dataset=torchtune.datasets.chat_dataset",
        "resume_from_checkpoint=True",
        "optimizer_in_bwd=True",
        "tokenizer.prompt_template=torchtune.data.AlpacaTemplate",
    ],
)
def test_what_torchtune_has_and_we_have_not_is_refused_with_what_there_is(word: str) -> None:
    with pytest.raises(UnsupportedError, match="supported: "):
        resolved(word)


@pytest.mark.parametrize("word", ["model.lora_rank=8", "model.use_dora=True", "model.quantize_base=True"])
def test_a_flag_of_adapters_is_refused_for_a_full_fine_tune(word: str) -> None:
    with pytest.raises(ConfigError, match="means nothing to full_finetune_distributed"):
        resolved(word, recipe=FULL)


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("{r: 8}", ConfigError, "LORA_CONFIG: expected a JSON object"),
        ("[8]", ConfigError, "LORA_CONFIG: expected a JSON object"),
        ('{"rank": 8}', ConfigError, "unknown name 'rank'"),
        ('{"lora_alfa": 8}', ConfigError, "near it: lora_alpha"),
        ('{"r": "8"}', ConfigError, "model.lora_rank (LORA_CONFIG): expected an integer"),
        ('{"target_modules": ["q"]}', ConfigError, "target_modules (LORA_CONFIG): expected one of q_proj"),
        ('{"bias": "all"}', UnsupportedError, "supported: none"),
    ],
)
def test_a_wrong_lora_config_is_refused(text: str, error: type[Exception], part: str) -> None:
    with pytest.raises(error) as raised:
        resolve(LORA, "auto", (), {"LORA_CONFIG": text})
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("config", "part"),
    [
        pytest.param(
            "llama3_2/1B_lora_single_devise",
            "near it: llama3_2/1B_lora_single_device",
            marks=pytest.mark.trainer,  # The names come with torchtune.
        ),
        ("/nowhere/x.yaml", "neither auto, nor a file, nor a name"),
        ("../../nowhere/at/all", "neither auto, nor a file, nor a name"),
    ],
)
def test_an_unknown_config_is_refused_with_names_near_it(config: str, part: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolved(config=config)
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [", "is not valid YAML"),
        ("- a", "expected a mapping of keys, found list"),
        ("optimiser: {lr: 1}", "optimiser.lr"),
        ("checkpointer: {checkpoint_dir: '${nowhere}/x'}", "${nowhere} names no value"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        resolved(config=str(file))
    assert part in str(raised.value)
