"""Weights in Hugging Face's layout: into the decoder, and out again as a model that transformers loads.

In: model.safetensors, or an index with shards, or the same as pytorch_model.bin. Out: safetensors, at most
`MAX_SHARD_BYTES` a file.
"""

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from trainyard.contract.errors import BadDataError, SourceNotFoundError
from trainyard.trainers.torchtune.components import to_nf4
from trainyard.trainers.torchtune.decoder import hugging_face_name, is_quantisable
from trainyard.trainers.torchtune.model_directory import ModelShape

MAX_SHARD_BYTES: Final = 5 * 1000**3
"""What transformers and the Hub use."""
_SINGLE: Final = ("model.safetensors", "pytorch_model.bin")
_ADAPTER_PARTS: Final = ("lora_a.", "lora_b.", ".magnitude")


def is_adapter(name: str) -> bool:
    """Say whether a parameter of the decoder belongs to an adapter, not to the base model."""
    return any(part in name for part in _ADAPTER_PARTS)


def weight_files(directory: Path) -> tuple[Path, ...]:
    """List the files that hold a model's weights; safetensors before .bin.

    Raises SourceNotFoundError naming the file that is missing, BadDataError for an index that cannot be read.
    """
    for single in _SINGLE:
        index = directory / f"{single}.index.json"
        if (directory / single).is_file():
            return (directory / single,)
        if index.is_file():
            return _files_of_index(index)
    raise SourceNotFoundError(
        f"{directory}: no weights; expected one of {', '.join(_SINGLE)}, or an index of shards such as "
        f"{_SINGLE[0]}.index.json"
    )


def _files_of_index(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadDataError(f"{index}: expected a JSON object with a weight_map of tensor names to files") from error
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise SourceNotFoundError(
            f"{index}: names {len(names)} files, {len(missing)} of which are missing, the first {missing[0]!r}"
        )
    return tuple(index.parent / name for name in names)


def _tensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    """Read a file's tensors one by one; they stay on disk until they are used."""
    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a dictionary
                    yield name, opened.get_tensor(name)
        else:
            yield from torch.load(file, map_location="cpu", mmap=True, weights_only=True).items()
    except (SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError, AttributeError) as error:
        raise BadDataError(f"{file}: not a whole weights file: {str(error).splitlines()[0]}") from error


def load(
    model: nn.Module,
    shape: ModelShape,
    directory: Path,
    *,
    device: torch.device,
    dtype: torch.dtype,
    quantise: bool = False,
) -> None:
    """Fill the decoder's base weights from a model directory, converted to `dtype`, on `device`.

    `quantise` puts the matrices of attention and MLP into 4 bits (NF4) as they come, one after the other.
    Raises BadDataError naming the file and the tensor that is missing, has another shape, or belongs to no such model.
    """
    wanted = {hugging_face_name(name): name for name, _ in model.named_parameters() if not is_adapter(name)}
    skipped = {"lm_head.weight"} if shape.tied_embeddings else set()
    loaded: dict[str, Tensor] = {}
    files = weight_files(directory)
    for file in files:
        for name, tensor in _tensors(file):
            if name in skipped or name.endswith("rotary_emb.inv_freq"):
                continue
            if name not in wanted:
                raise BadDataError(
                    f"{file}: holds {name!r}, which a {shape.family} model of its config.json does not have"
                )
            expected = tuple(model.get_parameter(wanted[name]).shape)
            if tuple(tensor.shape) != expected:
                raise BadDataError(
                    f"{file}: {name!r} has shape {list(tensor.shape)}, config.json asks for {list(expected)}"
                )
            converted = tensor.to(device=device, dtype=dtype)
            loaded[wanted[name]] = to_nf4(converted) if quantise and is_quantisable(wanted[name]) else converted
    missing = sorted(hf for hf, name in wanted.items() if name not in loaded)
    if missing:
        place = str(files[0]) if len(files) == 1 else f"{directory}: its {len(files)} weight files"
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise BadDataError(f"{place}: lacks {missing[0]!r}{more}, which config.json asks for")
    model.load_state_dict(loaded, strict=False, assign=True)


def save(tensors: Iterable[tuple[str, Tensor]], directory: Path) -> None:
    """Write tensors under their Hugging Face names into `directory`, with an index where they fill several files.

    They are taken one by one; no more than one file's worth of them is held at a time.
    """
    places: list[dict[str, int]] = []
    shard: dict[str, Tensor] = {}

    def write() -> None:
        save_file(shard, directory / f"{len(places)}.partial", metadata={"format": "pt"})
        places.append({name: tensor.nbytes for name, tensor in shard.items()})
        shard.clear()

    for name, tensor in tensors:
        if shard and sum(held.nbytes for held in shard.values()) + tensor.nbytes > MAX_SHARD_BYTES:
            write()
        shard[name] = tensor.contiguous()
    write()
    if len(places) == 1:
        (directory / "0.partial").rename(directory / _SINGLE[0])
        return
    weight_map: dict[str, str] = {}
    for number, place in enumerate(places):
        file_name = f"model-{number + 1:05d}-of-{len(places):05d}.safetensors"
        (directory / f"{number}.partial").rename(directory / file_name)
        weight_map.update(dict.fromkeys(place, file_name))
    total = sum(size for place in places for size in place.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / f"{_SINGLE[0]}.index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")
