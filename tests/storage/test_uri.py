import pytest

from trainyard.contract.errors import ConfigError
from trainyard.storage.uri import StorageUri


@pytest.mark.parametrize(
    ("text", "scheme", "rest"),
    [
        ("file:///data/x", "file", "/data/x"),
        ("FILE:///data/X", "file", "/data/X"),
        ("/data/x", "file", "/data/x"),
        ("/data/100%", "file", "/data/100%25"),
        ("  /data/a b ", "file", "/data/a b"),
        ("hf://org/name@main/sub/*.parquet", "hf", "org/name@main/sub/*.parquet"),
        ("s3://bucket/prefix/", "s3", "bucket/prefix/"),
        ("pvc://claim/path", "pvc", "claim/path"),
    ],
)
def test_a_uri_is_scheme_and_rest(text: str, scheme: str, rest: str) -> None:
    uri = StorageUri.parse(text)
    assert (uri.scheme, uri.rest) == (scheme, rest)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "got nothing"),
        ("data/x", "expected scheme://something or an absolute path, got 'data/x'"),
        ("./x", "expected scheme://something"),
        ("file:/data", "expected scheme://something"),
        ("1file:///x", "expected scheme://something"),
        ("file://", "expected something after file://"),
        ("s3:///", "expected something after s3://"),
        ("file:///a\nb", "control characters"),
        ("file:///a\0b", "control characters"),
        ("file:///" + "x" * 3000, "at most 2048 characters, got 3008"),
    ],
)
def test_nonsense_is_refused_with_the_field(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        StorageUri.parse(text, field="spec.initializer.dataset.storageUri")
    assert str(refused.value).startswith("spec.initializer.dataset.storageUri: ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:hunter2@host/x", "https://***@host/x"),
        ("https://host/x?X-Amz-Signature=hunter2", "https://host/x?***"),
        ("https://user:hunter2@host/a@b?sig=hunter2", "https://***@host/a@b?***"),
        ("https://user:hunter2/hunter2@host/x", "https://***@host/x"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("oci://host:5000/repo@sha256:0a", "oci://host:5000/repo@sha256:0a"),
        ("s3://hunter2:hunter2@bucket/x", "s3://***@bucket/x"),
        ("hf://org/name@v1", "hf://org/name@v1"),
        ("hf://squad@main", "hf://squad@main"),
        ("file:///a@b/c?d", "file:///a@b/c?d"),
    ],
)
def test_credentials_are_never_shown(text: str, shown: str) -> None:
    uri = StorageUri.parse(text)
    assert str(uri) == shown
    assert "hunter2" not in repr(uri)


@pytest.mark.parametrize(
    "text",
    ["https//user:hunter2@host/x", "user:hunter2@host", "https:/u:hunter2@host?sig=hunter2", "x?sig=hunter2"],
)
def test_a_malformed_uri_is_echoed_without_its_credentials(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        StorageUri.parse(text)
    assert "hunter2" not in str(refused.value)
