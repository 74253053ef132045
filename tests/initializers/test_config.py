from pathlib import Path

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.initializers.config import InitializerConfig


def test_the_defaults_are_the_contracts_paths() -> None:
    dataset = InitializerConfig.for_dataset({"STORAGE_URI": "file:///data"})
    model = InitializerConfig.for_model({"STORAGE_URI": "file:///data", "OUTPUT_PATH": ""})
    assert (dataset.output, model.output) == (Path("/workspace/dataset"), Path("/workspace/model"))
    assert (dataset.allow, dataset.ignore, dataset.replace) == ((), (), False)


def test_everything_is_read() -> None:
    config = InitializerConfig.for_model(
        {
            "STORAGE_URI": "/data/x",
            "OUTPUT_PATH": "/out",
            "ALLOW_PATTERNS": "*.json, *.txt,",
            "IGNORE_PATTERNS": "a,b",
            "REPLACE": "true",
        }
    )
    assert str(config.uri) == "file:///data/x"
    assert (config.output, config.allow, config.ignore, config.replace) == (
        Path("/out"),
        ("*.json", "*.txt"),
        ("a", "b"),
        True,
    )


def test_every_problem_is_in_one_error() -> None:
    with pytest.raises(ConfigError) as refused:
        InitializerConfig.for_dataset({"OUTPUT_PATH": "relative", "REPLACE": "maybe"})
    assert str(refused.value) == (
        "STORAGE_URI: required, not set; OUTPUT_PATH: expected an absolute path, got 'relative'; "
        "REPLACE: expected true or false, got 'maybe'"
    )
    with pytest.raises(ConfigError, match="STORAGE_URI: expected scheme://something.*; REPLACE: "):
        InitializerConfig.for_dataset({"STORAGE_URI": "data", "REPLACE": "maybe"})
