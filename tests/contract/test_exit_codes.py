import subprocess
import sys

from trainyard.contract import errors, exit_codes
from trainyard.contract.exit_codes import ExitCode

# Other packages subclass these too; the contract's own classes are what is meant.
CLASSES = [cls for cls in errors.TrainyardError.__subclasses__() if cls.__module__ == errors.__name__]


def test_every_code_has_a_meaning() -> None:
    assert set(exit_codes.MEANING) == set(ExitCode)


def test_codes_stay_in_the_sysexits_range() -> None:
    assert all(code == 0 or 64 <= code <= 78 for code in ExitCode)


def test_permanent_is_everything_but_done_and_transient() -> None:
    assert set(exit_codes.PERMANENT) == set(ExitCode) - {ExitCode.OK, ExitCode.TRANSIENT}
    assert list(exit_codes.PERMANENT) == sorted(exit_codes.PERMANENT)


def test_each_error_class_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in CLASSES]
    assert len(codes) == len(set(codes))
    assert set(codes) | {ExitCode.OK, ExitCode.INTERNAL} == set(ExitCode)


def test_only_transient_errors_are_retryable() -> None:
    assert [cls for cls in CLASSES if cls("x").retryable] == [errors.TransientError]


def test_reason_is_the_class_in_kubernetes_style() -> None:
    assert errors.SourceNotFoundError("x").reason == "SourceNotFound"


def test_describe_names_signals_and_foreign_codes() -> None:
    assert "SIGKILL" in exit_codes.describe(137)
    assert exit_codes.describe(139) == "killed by signal 11"
    assert exit_codes.describe(3) == "an exit code of the program's own"
    assert exit_codes.describe(66) == exit_codes.MEANING[ExitCode.NOT_FOUND]


def test_os_errors_become_the_class_that_says_who_must_act() -> None:
    import errno

    full = errors.from_os_error(OSError(errno.ENOSPC, "No space left on device"), "write '/x'")
    assert isinstance(full, errors.NoSpaceError)
    assert str(full).startswith("write '/x': No space left on device")
    assert isinstance(errors.from_os_error(PermissionError(errno.EACCES, "denied"), "w"), errors.CannotWriteError)
    assert isinstance(errors.from_os_error(OSError(errno.EIO, "I/O error"), "r"), errors.TransientError)


def test_importing_the_contract_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys, trainyard.contract.errors, trainyard.contract.termination, trainyard.contract.environ,"
        " trainyard.contract.progress, trainyard.contract.failure, trainyard.contract.labels\n"
        "print([name for name in ('ssl', 'urllib.request', 'pydantic', 'yaml', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
