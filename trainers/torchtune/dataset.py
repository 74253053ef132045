"""The tokenised data set, and which rows each process trains on at each step.

All rows are tokenised once, before the model is built: the longest of them decides how much memory a step takes. The
order of the rows is a function of seed and epoch alone, and a step takes the next `rows_per_step` of them, shared out
among the processes: another number of processes with the same rows per step computes the same steps.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from trainyard.contract.errors import BadDataError
from trainyard.trainers.torchtune.instruct import Pairs
from trainyard.trainers.torchtune.tokenizer import Tokenizer

_TOKENISE_AT_ONCE: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Token ids of all rows, one after the other."""

    ids: np.ndarray
    """[tokens], int32."""
    starts: np.ndarray
    """[rows + 1], int64: row i is ids[starts[i]:starts[i + 1]]."""
    asked_from: np.ndarray
    """[rows], int32: the first position of the row that is a target; 1 where the prompt is trained on too."""
    cut: int
    """Rows that were longer than the limit and lost their end."""
    dropped: int
    """Rows whose prompt alone reaches the limit: nothing of the response would be left."""
    longest: int
    """Length of the longest row, tokens."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def tokens(self) -> int:
        """Count the tokens of one pass over the rows, padding not counted."""
        return int(self.starts[-1])


def tokenise(pairs: Pairs, tokenizer: Tokenizer, *, max_seq_len: int, train_on_input: bool) -> Dataset:
    """Tokenise prompt and response of each row apart, so that the border between them is exact.

    `max_seq_len` is in tokens; a longer row loses its end. Raises BadDataError when no row is left.
    """
    ids = array("i")
    starts, asked_from = array("q", [0]), array("i")
    cut = dropped = 0
    for first in range(0, len(pairs.prompts), _TOKENISE_AT_ONCE):
        part = slice(first, first + _TOKENISE_AT_ONCE)
        prompts = tokenizer.encode_prompts(pairs.prompts[part])
        responses = tokenizer.encode_responses(pairs.responses[part])
        for prompt, response in zip(prompts, responses, strict=True):
            if len(prompt) >= max_seq_len:
                dropped += 1
                continue
            row = prompt + response
            cut += len(row) > max_seq_len
            ids.extend(row[:max_seq_len])
            starts.append(len(ids))
            # The first token of all has nothing before it to be predicted from.
            asked_from.append(1 if train_on_input else max(1, len(prompt)))
    if not asked_from:
        raise BadDataError(
            f"dataset: no row is left: each of the {dropped} prompts alone reaches "
            f"tokenizer.max_seq_len={max_seq_len} tokens"
        )
    bounds = np.frombuffer(starts, dtype=np.int64)
    return Dataset(
        ids=np.frombuffer(ids, dtype=np.int32),
        starts=bounds,
        asked_from=np.frombuffer(asked_from, dtype=np.int32),
        cut=cut,
        dropped=dropped,
        longest=int(np.diff(bounds).max()),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """One forward pass of one process."""

    tokens: Tensor
    """[rows, longest of them - 1], int64, padded on the right; nothing is predicted from a row's last token."""
    asked: Tensor
    """[targets], int64: the positions, in the flattened tokens, from which a token is to be predicted."""
    targets: Tensor
    """[targets], int64: the token to predict at each of them."""
    token_count: int
    """Tokens of the rows without the padding."""


def epoch_order(rows: int, *, seed: int, epoch: int, shuffle: bool) -> np.ndarray:
    """Order the rows for one epoch: [rows], int64."""
    return np.random.default_rng((seed, epoch)).permutation(rows) if shuffle else np.arange(rows)


def step_rows(order: np.ndarray, step: int, rows_per_step: int, *, rank: int, world_size: int) -> np.ndarray:
    """Choose the rows that process `rank` trains on at `step` of an epoch; the last step may have fewer, or none."""
    return order[step * rows_per_step : (step + 1) * rows_per_step][rank::world_size]


def batches(dataset: Dataset, rows: np.ndarray, batch_size: int, *, fill: int, device: torch.device) -> Iterator[Batch]:
    """Cut the rows of a step into batches, each padded with the token `fill` to its own longest row."""
    for first in range(0, len(rows), batch_size):
        yield _batch(dataset, rows[first : first + batch_size], fill, device)


def _batch(dataset: Dataset, rows: np.ndarray, fill: int, device: torch.device) -> Batch:
    lengths = dataset.starts[rows + 1] - dataset.starts[rows]
    width = int(lengths.max()) - 1
    tokens: np.ndarray = np.full((len(rows), width), fill, dtype=np.int64)
    asked: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for place, row in enumerate(rows):
        ids = dataset.ids[dataset.starts[row] : dataset.starts[row + 1]]
        first = dataset.asked_from[row]
        tokens[place, : len(ids) - 1] = ids[:-1]
        asked.append(np.arange(first - 1, len(ids) - 1) + place * width)
        targets.append(ids[first:])

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64, copy=False)).to(device, non_blocking=True)

    return Batch(
        tokens=on_device(tokens),
        asked=on_device(np.concatenate(asked)),
        targets=on_device(np.concatenate(targets)),
        token_count=int(lengths.sum()),
    )
