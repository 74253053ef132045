"""Secrets and ConfigMaps, from manifests and from `--secret`."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.errors import ConfigError, SourceNotFoundError
from trainyard.local.pods.secret_data import parse_secret_option, values_by_name, values_of


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_secret_has_base64_and_plain_keys_and_plain_wins() -> None:
    manifest = {
        "kind": "Secret",
        "metadata": {"name": "hf"},
        "data": {"TOKEN": encoded("old"), "KEY": encoded("k") + "\n"},
        "stringData": {"TOKEN": "new"},
    }
    assert values_by_name([manifest]) == {"hf": {"TOKEN": b"new", "KEY": b"k"}}


def test_a_config_map_has_plain_and_binary_keys() -> None:
    manifest = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x"}, "binaryData": {"b": encoded("y")}}
    assert values_of(manifest) == {"a": b"x", "b": b"y"}


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({"kind": "Secret", "metadata": {"name": "s"}, "data": {"A": "hunter2!"}}, "Secret 's': data.A is not base64"),
        ({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"A": 1}}, "stringData.A: expected a string"),
        ({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"A": True}}, "data.A: expected a string, got True"),
    ],
)
def test_malformed_values_name_their_key_and_never_show_a_secret(manifest: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        values_of(manifest)
    assert sentence in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_option_reads_a_folder_one_file_a_key(tmp_path: Path) -> None:
    (tmp_path / "ACCESS_TOKEN").write_bytes(b"t\n")
    (tmp_path / "..data").mkdir()
    (tmp_path / ".hidden").write_text("no")
    secret = parse_secret_option(f"hf={tmp_path}")
    assert secret["metadata"] == {"name": "hf"}
    assert values_of(secret) == {"ACCESS_TOKEN": b"t\n"}


def test_an_option_reads_an_env_file(tmp_path: Path) -> None:
    file = tmp_path / "hf.env"
    file.write_text("# mine\n\nACCESS_TOKEN=a=b c\nexport REGION=eu\nEMPTY=\n")
    assert values_of(parse_secret_option(f"hf={file}")) == {"ACCESS_TOKEN": b"a=b c", "REGION": b"eu", "EMPTY": b""}


def test_an_option_reads_a_manifest(tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text(json.dumps({"kind": "Secret", "metadata": {"name": "other"}, "stringData": {"A": "1"}}))
    secret = parse_secret_option(f"hf={file}")
    assert secret["metadata"] == {"name": "hf"}
    assert values_of(secret) == {"A": b"1"}


def test_malformed_options_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "bad.env").write_text("A=1\nno equals sign: hunter2\n")
    (tmp_path / "bad.yaml").write_text("kind: ConfigMap\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "blob").write_bytes(b"\xff\xfe")
    for option, error, sentence in [
        ("hf", ConfigError, "expected NAME=DIR or NAME=FILE, got 'hf'"),
        (f"hf={tmp_path}/nothing", SourceNotFoundError, "nothing"),
        (f"hf={tmp_path}/bad.env", ConfigError, "bad.env:2: expected KEY=VALUE"),
        (f"hf={tmp_path}/bad.yaml", ConfigError, "expected one object of kind Secret, got 'ConfigMap'"),
        (f"hf={tmp_path}/empty", ConfigError, "holds no key"),
        (f"hf={tmp_path}/blob", ConfigError, "is not text"),
    ]:
        with pytest.raises(error) as caught:
            parse_secret_option(option)
        assert sentence in str(caught.value)
        assert "hunter2" not in str(caught.value)
