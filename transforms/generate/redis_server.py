"""What the pacer and the ledger both need to know of a Redis server: its name, and what its errors mean."""

from __future__ import annotations

from urllib.parse import urlsplit

from redis import exceptions

# A server that takes longer than this to take a connection or to answer counts as out of reach.
TIMEOUT_SECONDS = 2.0

_REFUSALS = (
    exceptions.AuthenticationError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_PASSING = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
)
_PASSING_WORDS = ("MISCONF", "NOREPLICAS", "BUSY")


def server_name(uri: str) -> str:
    """The server's name for messages, `redis[s]://HOST:PORT/DB`: without the user and the password.

    Raises:
        ValueError: The URI can't be read; the text is the rest of a sentence and quotes nothing of it.
    """
    try:
        parts = urlsplit(uri)
        database = int(parts.path.strip("/") or 0)
        port = parts.port or 6379
    except ValueError:
        # The parser's own words may quote a part of the password.
        parts = None
    if (
        parts is None
        or parts.scheme not in ("redis", "rediss")
        or not parts.hostname
        or parts.query
        or parts.fragment
    ):
        raise ValueError("must look like redis://[USER:PASSWORD@]HOST:PORT/DB, or rediss:// for TLS")
    return f"{parts.scheme}://{parts.hostname}:{port}/{database}"


def is_passing(error: exceptions.RedisError) -> bool:
    """Whether the same command may work later: the server is away, starting, or may not write just now."""
    if isinstance(error, _REFUSALS) or _is_untrusted(error):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(_PASSING_WORDS)


def _is_untrusted(error: exceptions.RedisError) -> bool:
    """Whether the server's certificate was refused, as it will be the next time."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def what_failed(error: exceptions.RedisError) -> str:
    """The error as a clause for a person, without anything that was sent."""
    if isinstance(error, exceptions.NoPermissionError):
        return "its user may not run commands and scripts on the keys groundrows:*"
    if isinstance(error, _REFUSALS) or "unauthenticated" in str(error):
        return "it refuses the user or the password"
    if isinstance(error, exceptions.InvalidResponse):
        return "what answers there is no Redis server"
    if isinstance(error, exceptions.TimeoutError):
        return f"it does not answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, exceptions.BusyLoadingError):
        return "it is still loading its data"
    if _is_untrusted(error):
        return "its certificate is not trusted here: SSL_CERT_FILE may name its authority's"
    if isinstance(error, exceptions.ConnectionError):
        return "nothing answers there"
    if "WRONGTYPE" in str(error):
        return "a key under groundrows: holds something else"
    # Some servers repeat what a command was given, the password included.
    return f"it says {str(error).partition(', with args')[0]!r}"
