import pytest

from trainyard.storage.safe_name import HostileNameError, Names, check_name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../x", "leaves the destination"),
        ("a/../../x", "leaves the destination"),
        ("a/..", "leaves the destination"),
        ("/etc/passwd", "absolute"),
        ("", "empty"),
        ("a//b", "empty part"),
        ("./a", "empty part"),
        ("a/", "empty part"),
        ("a\0b", "NUL"),
        ("a" * 256, "more than 255 bytes"),
        ("é" * 128, "more than 255 bytes"),
        ("/".join(["x" * 200] * 20), "more than 3072"),
        (".trainyard-manifest.json", "reserved"),
        (".Trainyard-Work/x", "reserved"),
        ("sub/.trainyard-manifest.json", "reserved"),
        ("\ud800", "no text"),
    ],
)
def test_a_hostile_name_is_refused(name: str, says: str) -> None:
    with pytest.raises(HostileNameError, match=says):
        check_name(name)


@pytest.mark.parametrize("name", ["a", ".hidden", "..a", "a..", "a b/c\nd", "日本語/é", "a\\b", "x" * 255, "~", "-rf"])
def test_an_odd_but_honest_name_is_allowed(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a", "a"], "listed twice"),
        (["a", "a/b"], "'a' is a file, not a folder"),
        (["a/b", "a"], "it is also a folder"),
        (["a/b/c/d", "a/b"], "it is also a folder, of 'a/b/c/d'"),
    ],
)
def test_names_that_cannot_stand_together_are_refused(names: list[str], says: str) -> None:
    together = Names(case_insensitive=False)
    with pytest.raises(HostileNameError, match=says):
        for name in names:
            together.add(name)


@pytest.mark.parametrize("pair", [("README", "readme"), ("Data/x", "data/X"), ("e\u0301", "\u00e9")])
def test_names_that_differ_in_case_or_form_clash_only_where_the_disk_says_so(pair: tuple[str, str]) -> None:
    sensitive = Names(case_insensitive=False)
    insensitive = Names(case_insensitive=True)
    for name in pair:
        sensitive.add(name)
    insensitive.add(pair[0])
    with pytest.raises(HostileNameError, match="is the same file here"):
        insensitive.add(pair[1])


def test_folders_are_shared_also_where_case_is_ignored() -> None:
    names = Names(case_insensitive=True)
    names.add("Data/a")
    names.add("data/b")
    assert "Data/a" in names
    assert "data/a" not in names
