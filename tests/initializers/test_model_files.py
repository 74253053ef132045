import pytest

from trainyard.contract.errors import SourceNotFoundError
from trainyard.initializers.model_files import model_selection
from trainyard.storage.source import SourceFile

SDK_DEFAULT = ("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth")
OTHERS = ["config.json", "tokenizer.json", "modeling_x.py", "chat_template.jinja"]


def chosen(names: list[str], allow: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> list[str]:
    files = (SourceFile(path=name) for name in names)
    return [file.path for file in model_selection(allow, ignore).choose(files, "memory://m")]


@pytest.mark.parametrize(
    "ignore", [(), SDK_DEFAULT, tuple(reversed(SDK_DEFAULT))], ids=["unset", "sdk", "sdk-reversed"]
)
@pytest.mark.parametrize(
    ("weights", "kept"),
    [
        (["m.safetensors", "m.bin", "m.pt", "m.h5", "m.msgpack", "m.gguf"], ["m.safetensors"]),
        (["m-1.safetensors", "m-2.safetensors", "original/c.00.pth"], ["m-1.safetensors", "m-2.safetensors"]),
        (["m.bin", "m.pt", "m.h5"], ["m.bin"]),
        (["m.pt", "n.pth", "m.h5", "m.gguf"], ["m.pt", "n.pth"]),
        (["m.gguf", "tf_model.h5"], ["m.gguf"]),
        (["pytorch_model.bin", "pooling/m.safetensors"], ["pytorch_model.bin", "pooling/m.safetensors"]),
        (["unet/m.safetensors", "unet/m.bin"], ["unet/m.safetensors"]),
        (["m.pt", "training_args.bin"], ["m.pt", "training_args.bin"]),
        (["m.safetensors", "training_args.bin"], ["m.safetensors"]),
    ],
)
def test_one_format_is_taken_and_all_that_is_no_weights(
    weights: list[str], kept: list[str], ignore: tuple[str, ...]
) -> None:
    assert chosen(OTHERS + weights, ignore=ignore) == OTHERS + kept


def test_patterns_of_the_user_replace_the_defaults() -> None:
    names = [*OTHERS, "m.safetensors", "m.bin", "m.gguf"]
    assert chosen(names, allow=("*.bin", "*.json")) == ["config.json", "tokenizer.json", "m.bin"]
    assert chosen(names, allow=("*.gguf",), ignore=SDK_DEFAULT) == ["m.gguf"]
    assert chosen(names, ignore=("*.py",)) == [name for name in names if name != "modeling_x.py"]


@pytest.mark.parametrize(
    ("names", "allow", "ignore"),
    [
        (OTHERS, (), ()),
        ([*OTHERS, "tf_model.h5", "flax.msgpack"], (), ()),
        ([*OTHERS, "m.safetensors"], ("*.json",), ()),
        ([*OTHERS, "m.safetensors"], (), ("*.safetensors",)),
        ([*OTHERS, "training_args.bin"], (), ()),
    ],
)
def test_a_model_without_weights_is_an_error_that_says_what_there_was(
    names: list[str], allow: tuple[str, ...], ignore: tuple[str, ...]
) -> None:
    with pytest.raises(SourceNotFoundError, match=r"memory://m: a model without weights, .* it has 'config.json'"):
        chosen(names, allow, ignore)


def test_an_empty_source_is_an_error() -> None:
    with pytest.raises(SourceNotFoundError, match="it is empty"):
        chosen([])


def test_the_sdks_default_and_nothing_are_the_same_request() -> None:
    assert model_selection((), SDK_DEFAULT).describe() == model_selection((), ()).describe()
    assert model_selection((), ("*.h5",)).describe() != model_selection((), ()).describe()
