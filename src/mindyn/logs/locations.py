"""`BufferView`: where a log lies: a path of this machine, or an object in a store, named by its URL.

Objects are read by the libraries of their store (fsspec, polars), with the credentials that these find by themselves;
mindyn takes none. What a URL itself carries of them (user, password, signature) is in no message and no file: `str` of
a place leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from mindyn.errors import MissingExtraError
from mindyn.logs.errors import LogError
from mindyn.reading import describe_exception

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_COLLAPSED_URL: Final = re.compile(r"(s3a?|gs|gcs|az|abfss?|https?|file):/(?!/)", re.IGNORECASE)
"""What is left of a URL that went through `pathlib`."""
TESTED_SCHEMES: Final = ("s3", "file")
"""Schemes that the tests read; others as fsspec and polars support them."""


@dataclass(frozen=True, slots=True, repr=False)
class RemoteFile:
    """An object of a store; as much of `pathlib.Path` as reading a log needs."""

    url: str

    def __str__(self) -> str:
        return strip_credentials(self.url)

    __repr__ = __str__

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(urlsplit(self.url).path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.name

    @property
    def stem(self) -> str:
        """Its name without the suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        return self._path.suffix

    @property
    def parent(self) -> RemoteFile:
        """The prefix that it lies under."""
        return self._at(self._path.parent)

    def __truediv__(self, name: str) -> RemoteFile:
        return self._at(self._path / name)

    def with_name(self, name: str) -> RemoteFile:
        """Another object beside it."""
        return self._at(self._path.with_name(name))

    def _at(self, path: PurePosixPath) -> RemoteFile:
        parts = urlsplit(self.url)
        return RemoteFile(urlunsplit(parts._replace(path=str(path))))

    def exists(self) -> bool:
        """Whether the store has it."""
        with _hide_credentials(self):
            return bool(_filesystem(self.url).exists(self.url))

    def open(self) -> BinaryIO:
        """Its bytes, fetched as they are asked for."""
        with _hide_credentials(self):
            return _filesystem(self.url).open(self.url, "rb")  # type: ignore[no-any-return]

    def read_text(self, encoding: str = "utf-8") -> str:
        """All of it, as text."""
        with _hide_credentials(self):
            return bytes(_filesystem(self.url).cat_file(self.url)).decode(encoding)

    def info(self) -> FileListing:
        """What the store says of it."""
        with _hide_credentials(self):
            return _list_remote(self, _filesystem(self.url).info(self.url))


FileLocation = Path | RemoteFile


@dataclass(frozen=True, slots=True)
class FileListing:
    """What a listing says of a file.

    version   changes whenever the bytes do: the store's etag, else size and time of change
    changed   seconds since 1970, where it is known
    """

    place: FileLocation
    size: int
    version: str
    changed: float | None

    @property
    def is_content(self) -> bool:
        """Whether equal versions mean equal bytes."""
        return self.version.startswith("etag:")


def parse_location(given: str | FileLocation) -> FileLocation:
    """The place of a path or URL as a caller writes it."""
    if isinstance(given, RemoteFile):
        return given
    text = str(given)
    if isinstance(given, Path) or not _URL.match(text):
        if _COLLAPSED_URL.match(text):
            raise LogError(
                f"{strip_credentials(text)!r} was a URL before it was made a Path, which keeps one slash of two",
                hint="give URLs as text: read_log('s3://bucket/run.parquet', robot)",
            )
        return Path(text) if Path(text).name else Path(text).absolute()
    parts = urlsplit(text)
    if parts.scheme.lower() == "file":
        return Path(url2pathname(parts.path))
    return RemoteFile(text)


def expand_locations(patterns: Iterable[str]) -> list[FileLocation]:
    """The files that a command line names: paths and URLs, each as it is or as a pattern of several."""
    made: list[FileLocation] = []
    for pattern in patterns:
        place = parse_location(pattern)
        text = place.url if isinstance(place, RemoteFile) else str(place)
        if not has_magic(text) or (isinstance(place, Path) and place.exists()):
            made.append(place)
        elif found := [one.place for one in list_matching(pattern)]:
            made += found
        else:
            raise LogError(f"nothing lies at {str(place)!r}", hint="is the pattern right? ** stands for any folders")
    return made


def strip_credentials(url: str) -> str:
    """The URL without user, password and query, where keys and signatures stand."""
    if not _URL.match(url):
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))


def list_matching(pattern: str) -> list[FileListing]:
    """What lies at the places that a pattern names (`*`, `?`, `[...]`; `**` any number of folders), by name."""
    place = parse_location(pattern)
    if isinstance(place, Path):
        pattern = str(place)
        found = sorted(map(Path, glob(pattern, recursive=True)))  # noqa: PTH207
        return [list_local(one) for one in found if one.exists()]
    with _hide_credentials(place):
        system = _filesystem(place.url)
        if not has_magic(place.url):
            said = system.info(place.url) if system.exists(place.url) else {"type": "directory"}
            return [] if said.get("type") == "directory" else [_list_remote(place, said)]
        listing = system.glob(place.url, detail=True)
    parts = urlsplit(place.url)
    made = []
    for name, said in sorted(listing.items()):
        if said.get("type") == "directory":
            continue
        path = str(name).split("://", 1)[-1]
        bare = path.lstrip("/").removeprefix(parts.netloc.rpartition("@")[2] + "/")
        url = urlunsplit(parts._replace(path=f"/{bare}"))
        made.append(_list_remote(RemoteFile(url), said))
    return made


def list_local(path: Path) -> FileListing:
    """What the file system says of a file, or of the files of a folder (a rosbag2) together."""
    try:
        said = [one.stat() for one in (sorted(path.iterdir()) if path.is_dir() else [path])] or [path.stat()]
    except OSError as problem:
        raise LogError(f"{str(path)!r} cannot be read: {describe_exception(problem)}") from problem
    size, changed = sum(one.st_size for one in said), max(one.st_mtime_ns for one in said)
    return FileListing(path, size, f"changed:{size}:{changed}", changed / 1e9)


def _list_remote(place: RemoteFile, said: dict[str, Any]) -> FileListing:
    etag = next((str(said[key]).strip('"') for key in ("ETag", "etag", "e_tag", "md5Hash") if said.get(key)), "")
    changed = next((said[key] for key in ("LastModified", "last_modified", "mtime", "updated") if said.get(key)), None)
    stamp = changed.timestamp() if isinstance(changed, datetime) else None
    size = int(said.get("size") or said.get("Size") or 0)
    return FileListing(place, size, f"etag:{etag}" if etag else f"changed:{size}:{changed}", stamp)


def _filesystem(url: str) -> Any:
    scheme = urlsplit(url).scheme
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)[0]
    except ImportError as error:
        raise MissingExtraError(
            f"{scheme}:// is read by fsspec and its package for that store, which are not installed",
            hint="pip install 'mindyn[cloud]' brings them for s3://; for other stores see fsspec",
        ) from error


@contextmanager
def _hide_credentials(place: RemoteFile) -> Iterator[None]:
    """What a store's library trips over is told without the URL that it was given."""
    try:
        yield
    except (LogError, MissingExtraError):
        raise
    except Exception as error:
        raise remote_error(place, error) from None


def remote_error(place: RemoteFile, error: BaseException) -> LogError:
    """The error of a store's library, without what a URL carries of credentials."""
    reason = describe_exception(error).replace(place.url, str(place))
    query, user = urlsplit(place.url).query, urlsplit(place.url).netloc.rpartition("@")[0]
    for secret in (query, user, user.partition(":")[2]):
        reason = reason.replace(secret, "...") if secret else reason
    missing = isinstance(error, FileNotFoundError)
    return LogError(
        f"there is no log {str(place)!r}" if missing else f"{str(place)!r} cannot be read: {reason}",
        hint="is the bucket's name right, and do the credentials of the environment (AWS_PROFILE, AWS_ENDPOINT_URL) "
        "reach it?",
    )
