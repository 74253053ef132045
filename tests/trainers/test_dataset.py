"""Tokenisation, targets and the order of rows."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.trainer


def made(folder: Path, prompts: list[str], responses: list[str], **more: Any) -> Any:
    from trainyard.trainers.torchtune.dataset import tokenise
    from trainyard.trainers.torchtune.instruct import Pairs
    from trainyard.trainers.torchtune.tokenizer import load

    pairs = Pairs(prompts=prompts, responses=responses, shape="x", unusable=0, first_unusable=None)
    settings = {"max_seq_len": 128, "train_on_input": False, **more}
    return tokenise(pairs, load(folder, None), **settings)


def row(dataset: Any, index: int) -> list[int]:
    return list(dataset.ids[dataset.starts[index] : dataset.starts[index + 1]])


def test_ids_are_those_of_transformers_on_a_multilingual_sample(tiny_llama: Path) -> None:
    from transformers import AutoTokenizer

    samples = [
        "naïve café, Straße",
        "你好世界, как дела?",
        "مرحبا  \n\t 🚂🚃",
        "the red fox",
        "  leading",
        "<|end|> inside",
    ]
    theirs = AutoTokenizer.from_pretrained(tiny_llama)
    dataset = made(tiny_llama, samples, samples[::-1])
    for index, (prompt, response) in enumerate(zip(samples, samples[::-1], strict=True)):
        expected = theirs(prompt)["input_ids"] + theirs(response, add_special_tokens=False)["input_ids"]
        assert row(dataset, index) == [*expected, theirs.eos_token_id]


def test_targets_are_the_response_alone(tiny_llama: Path) -> None:
    import torch

    from trainyard.trainers.torchtune.dataset import batches

    dataset = made(tiny_llama, ["the red fox", "say"], ["blue", "five it is"])
    (batch,) = batches(dataset, torch.arange(2).numpy(), 2, fill=1, device=torch.device("cpu"))
    for index in range(2):
        ids, width = row(dataset, index), batch.tokens.shape[1]
        positions = [p - index * width for p in batch.asked.tolist() if p // width == index]
        asked = [t for p, t in zip(batch.asked.tolist(), batch.targets.tolist(), strict=True) if p // width == index]
        assert asked == ids[dataset.asked_from[index] :]
        assert [ids[position + 1] for position in positions] == asked
        assert batch.tokens[index].tolist() == (ids[:-1] + [1] * width)[:width]
    assert batch.token_count == dataset.tokens


def test_training_on_the_input_asks_for_all_but_the_first_token(tiny_llama: Path) -> None:
    dataset = made(tiny_llama, ["the red fox"], ["blue"], train_on_input=True)
    assert list(dataset.asked_from) == [1]


def test_long_rows_lose_their_end_and_hopeless_ones_are_dropped(tiny_llama: Path) -> None:
    whole = made(tiny_llama, ["the red fox", "say " * 30], ["blue " * 30, "x"])
    limit = int(whole.asked_from[0]) + 3
    cut = made(tiny_llama, ["the red fox", "say " * 30], ["blue " * 30, "x"], max_seq_len=limit)
    assert (len(cut), cut.cut, cut.dropped, cut.longest) == (1, 1, 1, limit)
    assert row(cut, 0) == row(whole, 0)[:limit]


def test_every_row_is_trained_on_once_an_epoch_in_an_order_of_seed_and_epoch(tmp_path: Path) -> None:
    from trainyard.trainers.torchtune.dataset import epoch_order, step_rows

    order = epoch_order(10, seed=1, epoch=0, shuffle=True)
    assert sorted(order) == list(range(10))
    assert list(order) == list(epoch_order(10, seed=1, epoch=0, shuffle=True))
    assert list(order) != list(epoch_order(10, seed=1, epoch=1, shuffle=True))
    assert list(epoch_order(10, seed=1, epoch=0, shuffle=False)) == list(range(10))
    for world_size in (1, 2, 4):
        steps = [
            sorted(
                row for rank in range(world_size) for row in step_rows(order, step, 4, rank=rank, world_size=world_size)
            )
            for step in range(3)
        ]
        assert steps == [sorted(order[:4]), sorted(order[4:8]), sorted(order[8:])]


@pytest.mark.parametrize("named", ["vocab.json", "merges.txt", "original/tokenizer.model", "tokenizer.json"])
def test_torchtunes_tokenizer_files_lead_to_the_tokenizer_json(tiny_llama: Path, tmp_path: Path, named: str) -> None:
    import shutil

    from trainyard.trainers.torchtune.tokenizer import load

    folder = Path(shutil.copytree(tiny_llama, tmp_path / "model"))
    file = folder / named
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_text("")
    assert load(folder, file).file == folder / "tokenizer.json"


def test_a_response_ends_with_the_models_own_end_token(tiny_llama: Path, tmp_path: Path) -> None:
    import json
    import shutil

    from trainyard.contract.errors import BadDataError
    from trainyard.trainers.torchtune.tokenizer import load

    folder = Path(shutil.copytree(tiny_llama, tmp_path / "model"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|begin|>"}}))
    assert load(folder, None).eos_id == 0
    (folder / "tokenizer_config.json").unlink()
    assert load(folder, None).eos_id == 1  # From generation_config.json or config.json.
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text("{}")
    with pytest.raises(BadDataError, match="names no eos_token"):
        load(folder, None)
