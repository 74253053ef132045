import pytest

from trainyard.contract.errors import SourceNotFoundError
from trainyard.storage.patterns import Patterns
from trainyard.storage.source import SourceFile

NAMES = ["README.md", "data/a.parquet", "data/deep/b.parquet", "data.bin", "sub/x.bin", "A.BIN"]


def chosen(allow: tuple[str, ...] = (), ignore: tuple[str, ...] = (), names: list[str] = NAMES) -> list[str]:
    files = (SourceFile(path=name) for name in names)
    return [file.path for file in Patterns(allow=allow, ignore=ignore).choose(files, "memory://x")]


@pytest.mark.parametrize(
    ("allow", "ignore", "expected"),
    [
        ((), (), NAMES),
        (("*.parquet",), (), ["data/a.parquet", "data/deep/b.parquet"]),
        ((), ("*.bin",), ["README.md", "data/a.parquet", "data/deep/b.parquet", "A.BIN"]),
        (("data/",), (), ["data/a.parquet", "data/deep/b.parquet"]),
        (("data/*",), ("data/deep/*",), ["data/a.parquet"]),
        (("*.bin", "README.md"), ("sub/*",), ["README.md", "data.bin"]),
        (("[Rd]*",), (), ["README.md", "data/a.parquet", "data/deep/b.parquet", "data.bin"]),
    ],
)
def test_globs_are_those_of_the_hub(allow: tuple[str, ...], ignore: tuple[str, ...], expected: list[str]) -> None:
    assert chosen(allow, ignore) == expected


def test_an_empty_source_is_an_error() -> None:
    with pytest.raises(SourceNotFoundError, match="memory://x: it is empty"):
        chosen(names=[])


def test_patterns_that_leave_nothing_say_what_there_was() -> None:
    with pytest.raises(SourceNotFoundError) as refused:
        chosen(allow=("*.jsonl", "x"), ignore=("y",), names=[f"f{index}" for index in range(20)])
    assert str(refused.value) == (
        "memory://x: no file is left by the patterns (allow *.jsonl, x; ignore y); "
        "it has 'f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'f6', 'f7' and 12 more"
    )


def test_files_are_chosen_as_they_come() -> None:
    def endless():  # type: ignore[no-untyped-def]
        while True:
            yield SourceFile(path="a")

    assert next(Patterns().choose(endless(), "x")).path == "a"
