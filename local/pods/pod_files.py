"""Write small files of a pod so that a reader never sees half of one, and a stranger none."""

from pathlib import Path


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner may enter: it holds Secrets."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_file(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file in one step, unless it says the same already."""
    try:
        if file.read_text(encoding="utf-8") == text:
            return
    except OSError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.touch(mode=mode)
    partial.write_text(text, encoding="utf-8")
    partial.chmod(mode)
    partial.replace(file)
