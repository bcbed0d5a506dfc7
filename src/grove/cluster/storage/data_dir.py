"""The data directory of a cluster: used by one process at a time, of one format, readable by its owner only.

Files: `format` names the format; `lock` is held while the directory is in use; `cluster.db` holds the objects
(`sqlite_log.py`); `identity.json` holds certificates, token and port (`cluster_identity.py`); `begun` exists once the
initial objects of a new cluster are stored.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from grove.cluster.storage.sqlite_log import VersionLog
from grove.cluster.storage.store import Storage
from grove.errors import UserError

FORMAT = 1
_FORMAT_TEXT = "grove cluster, format "
_FORMAT_FILE, _LOCK_FILE, _DATABASE = "format", "lock", "cluster.db"
_IDENTITY_FILE, _INITIALIZED_FILE = "identity.json", "begun"


class DataDir:
    """An open data directory: the restored store, and the log for further writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = VersionLog(path / _DATABASE)
        try:
            self.store = Storage()
            self.store.restore(self.log.versions(), self.log.floor)
        except BaseException:
            self.log.close()
            raise

    def read_identity(self) -> bytes | None:
        try:
            return (self.path / _IDENTITY_FILE).read_bytes()
        except FileNotFoundError:
            return None

    def write_identity(self, text: bytes) -> None:
        _write_file(self.path / _IDENTITY_FILE, text)

    @property
    def is_initialized(self) -> bool:
        """Return whether the initial objects of a new cluster are stored."""
        return (self.path / _INITIALIZED_FILE).exists()

    def mark_initialized(self) -> None:
        _write_file(self.path / _INITIALIZED_FILE, b"yes\n")


@contextmanager
def open_data_dir(path: Path) -> Iterator[DataDir]:
    """Open and lock the data directory. Raises `UserError` if it cannot be used, and then changes nothing in it."""
    with ExitStack() as stack:
        try:
            data_dir = _open(path, stack)
        except OSError as error:
            message = f"{path}: cannot be used ({error.strerror}); fix this, or choose another --data-dir"
            raise UserError(message) from error
        yield data_dir


def _open(path: Path, stack: ExitStack) -> DataDir:
    _check_format(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    stack.enter_context(_lock(path))
    # Check again under the lock: another process may have created the directory meanwhile.
    _check_format(path)
    path.chmod(0o700)
    is_new = not (path / _FORMAT_FILE).exists()
    if is_new:
        _make_file(path / _DATABASE)
    elif not (path / _DATABASE).exists() or not (path / _DATABASE).stat().st_size:
        raise UserError(
            f"{path / _DATABASE}: is missing or empty; restore it, or start a new cluster with another --data-dir"
        )
    data_dir = DataDir(path)
    stack.callback(data_dir.log.close)
    if is_new:
        # Written last: a directory without this file was never used.
        _write_file(path / _FORMAT_FILE, f"{_FORMAT_TEXT}{FORMAT}\n".encode())
    return data_dir


def _check_format(path: Path) -> None:
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UserError(f"{path}: is not a directory; choose another --data-dir") from None
    if _FORMAT_FILE not in names:
        own_files = (_LOCK_FILE, _DATABASE, f".{_FORMAT_FILE}.")
        if other_files := [name for name in names if not name.startswith(own_files)]:
            raise UserError(
                f"{path}: contains {other_files[0]} but no cluster; choose an empty directory as --data-dir"
            )
        return
    text = (path / _FORMAT_FILE).read_text(errors="replace").strip()
    if text != f"{_FORMAT_TEXT}{FORMAT}":
        raise UserError(
            f"{path}: has another format ({text[:60]!r}, this version of grove supports {_FORMAT_TEXT}{FORMAT}); "
            "use the version of grove that wrote it, or choose another --data-dir. Nothing was changed"
        )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file. The operating system releases it when the process ends, even after a crash."""
    file = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 20).decode(errors="replace").strip()
            raise UserError(
                f"{path}: is in use by another `grove up` (process {owner or 'unknown'}); "
                "stop it first, or choose another --data-dir"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _make_file(path: Path) -> None:
    """Create the database file with mode 0600 before SQLite does. SQLite gives its companion files the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _write_file(path: Path, data: bytes) -> None:
    """Replace the file atomically. It is on disk when this returns."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
