"""`FileLocation`: location of a log, which is a local path or the URL of an object in a store.

Objects are read by fsspec and polars with the credentials that these libraries find; mindyn itself uses no credentials.
Credentials in a URL (user, password, signature) never appear in a message or file: `str` of a location omits them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit, urlunsplit

from mindyn.foundation.errors import Code, MissingExtraError
from mindyn.foundation.hints import install_command
from mindyn.foundation.safe_reading import describe_exception
from mindyn.logs.log_errors import LogError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_COLLAPSED_URL: Final = re.compile(r"(s3a?|gs|gcs|az|abfss?|https?|file):/(?!/)", re.IGNORECASE)
"""Start of a URL that was converted to a `pathlib.Path`."""
_DENIED: Final = re.compile(
    r"(status|code|error|http\S*|client)\W{1,5}(401|403)\b|\((401|403)\)|\b(401|403)\W{1,3}(unauthori[sz]ed|forbidden)"
    r"|access ?denied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|(NoCredentials|PartialCredentials|DefaultCredentials|CredentialRetrieval|Unauthenticated)\w*"
    r"|unable to locate credentials",
    re.IGNORECASE,
)
"""Words for the HTTP errors 401 and 403 and for missing credentials, in class names and messages of the libraries."""
_ACCESS_HINT: Final = "check the credentials of the environment (AWS_PROFILE, AWS_ENDPOINT_URL)"
_MISSING_HINT: Final = "check the names of the bucket and the object"
_UNREADABLE_HINT: Final = "repeat the command; if it fails again, compare the object with the file that was uploaded"


@dataclass(frozen=True, slots=True, repr=False)
class RemoteFile:
    """Object in a store, with the part of the interface of `pathlib.Path` that reading a log needs."""

    url: str

    def __str__(self) -> str:
        return strip_credentials(self.url)

    __repr__ = __str__

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(urlsplit(self.url).path)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self._path.name

    @property
    def stem(self) -> str:
        """Name without the suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """End of the name, from the last dot."""
        return self._path.suffix

    @property
    def parent(self) -> RemoteFile:
        """Prefix of the object."""
        return self._at(self._path.parent)

    def __truediv__(self, name: str) -> RemoteFile:
        return self._at(self._path / name)

    def with_name(self, name: str) -> RemoteFile:
        """Return another object with the same prefix."""
        return self._at(self._path.with_name(name))

    def _at(self, path: PurePosixPath) -> RemoteFile:
        parts = urlsplit(self.url)
        return RemoteFile(urlunsplit(parts._replace(path=str(path))))

    def exists(self) -> bool:
        """Return whether the object exists."""
        return bool(self._ask("exists"))

    def open(self) -> BinaryIO:
        """Open the object for reading; bytes are fetched as needed."""
        return self._ask("open", "rb")  # type: ignore[no-any-return]

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the object as text."""
        with convert_remote_errors(self):
            return bytes(self._ask("cat_file")).decode(encoding)

    def info(self) -> FileListing:
        """Return the store's information about the object."""
        return _list_remote(self, self._ask("info"))

    def _ask(self, method: str, *arguments: str) -> Any:
        with convert_remote_errors(self):
            return getattr(_filesystem(self.url), method)(self.url, *arguments)


FileLocation = Path | RemoteFile


@dataclass(frozen=True, slots=True)
class FileListing:
    """Size and version of a file, and why it cannot be read.

    version   text that changes whenever the bytes change: the store's etag, or else size and time of change
    changed   time of change in s since 1970, if known
    problem   why the file cannot be read, such as a link whose target does not exist; "" if nothing is known
    """

    place: FileLocation
    size: int
    version: str
    changed: float | None
    problem: str = ""


def parse_location(given: str | FileLocation) -> FileLocation:
    """Return the location of a path or URL."""
    if isinstance(given, RemoteFile):
        return given
    text = str(given)
    if isinstance(given, Path) or not _URL.match(text):
        if _COLLAPSED_URL.match(text):
            raise LogError(
                f"{strip_credentials(text)!r} is a URL that was converted to a Path, which removes a slash",
                hint="pass URLs as text: read_log('s3://bucket/run.parquet', robot)",
                code=Code.WRONG_TYPE,
                subject=strip_credentials(text),
            )
        return Path(text) if Path(text).name else Path(text).absolute()
    parts = urlsplit(text)
    if parts.scheme.lower() == "file":
        from urllib.request import url2pathname  # imports HTTP and e-mail

        return Path(url2pathname(parts.path))
    return RemoteFile(text)


def expand_locations(patterns: Iterable[str]) -> list[FileLocation]:
    """Return the files for the paths, URLs and patterns of a command line."""
    locations: list[FileLocation] = []
    for pattern in patterns:
        place = parse_location(pattern)
        text = place.url if isinstance(place, RemoteFile) else str(place)
        if not has_magic(text) or (isinstance(place, Path) and place.exists()):
            locations.append(place)
        elif matches := [listing.place for listing in list_matching(pattern)]:
            locations += matches
        else:
            message, hint = f"no file matches '{place}'", "check the pattern; ** matches any folders"
            raise LogError(message, hint=hint, code=Code.MISSING_FILE, subject=place)
    return locations


def strip_credentials(url: str) -> str:
    """Return the URL without user, password and query, which may hold keys and signatures."""
    if not _URL.match(url):
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))


def list_matching(pattern: str) -> list[FileListing]:
    """List the files that match a pattern (`*`, `?`, `[...]`; `**` matches any number of folders), by name.

    A file that cannot be opened, such as a link without a target, is listed with its problem.
    """
    place = parse_location(pattern)
    if isinstance(place, Path):
        pattern = str(place)
        paths = sorted(map(Path, glob(pattern, recursive=True)))  # noqa: PTH207
        return [_list_readable(path) for path in paths if os.path.lexists(path)]
    with convert_remote_errors(place):
        system = _filesystem(place.url)
        if not has_magic(place.url):
            details = system.info(place.url) if system.exists(place.url) else {"type": "directory"}
            return [] if details.get("type") == "directory" else [_list_remote(place, details)]
        listing = system.glob(place.url, detail=True)
    parts = urlsplit(place.url)
    files = []
    for name, details in sorted(listing.items()):
        if details.get("type") == "directory":
            continue
        path = str(name).split("://", 1)[-1]
        bare = path.lstrip("/").removeprefix(parts.netloc.rpartition("@")[2] + "/")
        url = urlunsplit(parts._replace(path=f"/{bare}"))
        files.append(_list_remote(RemoteFile(url), details))
    return files


def _list_readable(path: Path) -> FileListing:
    """Return the listing of a path, with its problem if it cannot be read."""
    try:
        return list_local(path)
    except LogError as error:
        is_broken_link = path.is_symlink() and not os.path.exists(path)  # noqa: PTH110 - Path.exists raises for loops
        reason = "it is a link whose target does not exist" if is_broken_link else error.message
        return FileListing(path, 0, "", None, reason)


def list_local(path: Path) -> FileListing:
    """Return the size and the version of a file, or of all files of a folder (a rosbag2)."""
    try:
        stats = [file.stat() for file in (sorted(path.iterdir()) if path.is_dir() else [path])] or [path.stat()]
    except OSError as problem:
        message = f"'{path}' cannot be read: {describe_exception(problem)}"
        raise LogError(message, code=Code.UNREADABLE, subject=path) from problem
    size, changed = sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
    return FileListing(path, size, f"changed:{size}:{changed}", changed / 1e9)


def _list_remote(place: RemoteFile, details: dict[str, Any]) -> FileListing:
    etag = next((str(details[key]).strip('"') for key in ("ETag", "etag", "e_tag", "md5Hash") if details.get(key)), "")
    stamps = ("LastModified", "last_modified", "mtime", "updated")
    changed = next((details[key] for key in stamps if details.get(key)), None)
    stamp = changed.timestamp() if isinstance(changed, datetime) else None
    size = int(details.get("size") or details.get("Size") or 0)
    return FileListing(place, size, f"etag:{etag}" if etag else f"changed:{size}:{changed}", stamp)


def _filesystem(url: str) -> Any:
    scheme = urlsplit(url).scheme
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)[0]
    except ImportError as error:
        raise MissingExtraError(
            f"{scheme}:// needs fsspec and its package for that store, which are not installed",
            hint=f"{install_command('cloud')} installs them for s3://; for other stores see fsspec",
            subject="cloud",
        ) from error


@contextmanager
def convert_remote_errors(place: RemoteFile) -> Iterator[None]:
    """Raise errors of a store's library as `LogError` without the credentials of the URL."""
    try:
        yield
    except (LogError, MissingExtraError):
        raise
    except Exception as error:
        raise remote_error(place, error) from None


def remote_error(place: RemoteFile, error: BaseException) -> LogError:
    """Return the error of a store's library as `LogError` without the credentials of the URL."""
    reason = describe_exception(error).replace(place.url, str(place))
    query, user = urlsplit(place.url).query, urlsplit(place.url).netloc.rpartition("@")[0]
    for secret in (query, user, user.partition(":")[2]):
        reason = reason.replace(secret, "...") if secret else reason
    missing = isinstance(error, FileNotFoundError)
    return LogError(
        f"the log '{place}' does not exist" if missing else f"'{place}' cannot be read: {reason}",
        hint=_MISSING_HINT if missing else _ACCESS_HINT if _is_denied(error) else _UNREADABLE_HINT,
        code=Code.MISSING_FILE if missing else Code.UNREADABLE,
        subject=place,
    )


def _is_denied(error: BaseException) -> bool:
    """Return whether a store rejected the credentials or its library found none."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    return any(
        isinstance(cause, PermissionError) or _DENIED.search(f"{type(cause).__name__} {cause}") for cause in causes
    )
