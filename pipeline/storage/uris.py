"""URIs that may be shown: without what they hold of credentials."""

from __future__ import annotations


def without_password(uri: str) -> str:
    """A URI without the user, the password and the query it may hold; a local path stays as it is."""
    scheme, separator, rest = uri.partition("://")
    if scheme == "sqlite":
        return uri
    # Behind the last @, since a password that is not escaped may hold anything.
    shown = rest.rpartition("@")[2].partition("?")[0] if separator else scheme.rpartition("@")[2]
    return f"{scheme}{separator}{shown}" if separator else shown
