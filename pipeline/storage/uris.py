"""Tells where a path leads, and removes passwords from URIs before they are shown."""

from __future__ import annotations


def is_remote(path: str) -> bool:
    """Whether a path leads to a service, such as `gs://bucket/name`, rather than to a local disk."""
    return "://" in path


def on_cloud_storage(path: str) -> bool:
    """Whether a path leads to Google Cloud Storage."""
    return path.startswith("gs://")


def without_password(uri: str) -> str:
    """Return a URI without its user, password and query. A local path stays as it is."""
    scheme, separator, rest = uri.partition("://")
    if scheme == "sqlite":
        return uri
    # The host stands behind the last @: a password that is not escaped may contain an @ itself.
    shown = rest.rpartition("@")[2].partition("?")[0] if separator else scheme.rpartition("@")[2]
    return f"{scheme}{separator}{shown}" if separator else shown
