"""What a path or a URI says: where it is, and what of it may be shown."""

from __future__ import annotations


def is_remote(path: str) -> bool:
    """Whether a path of a file or directory leads to a service, such as `gs://bucket/name`, not to a disk."""
    return "://" in path


def on_cloud_storage(path: str) -> bool:
    """Whether a path leads to Google Cloud Storage."""
    return path.startswith("gs://")


def without_password(uri: str) -> str:
    """A URI without the user, the password and the query it may hold; a local path stays as it is."""
    scheme, separator, rest = uri.partition("://")
    if scheme == "sqlite":
        return uri
    # Behind the last @, since a password that is not escaped may hold anything.
    shown = rest.rpartition("@")[2].partition("?")[0] if separator else scheme.rpartition("@")[2]
    return f"{scheme}{separator}{shown}" if separator else shown
