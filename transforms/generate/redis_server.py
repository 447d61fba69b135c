"""What the pacer and the ledger share for Redis: a server's name, and the meaning of its errors."""

from __future__ import annotations

from urllib.parse import urlsplit

from redis import exceptions

# A server that needs longer than this to accept a connection or to answer counts as unreachable.
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
    """Return the server's name for messages, `redis[s]://HOST:PORT/DB`, without user and password.

    Raises:
        ValueError: The URI is not valid. The message is the end of a sentence and does not quote the URI.
    """
    try:
        parts = urlsplit(uri)
        database = int(parts.path.strip("/") or 0)
        port = parts.port or 6379
    except ValueError:
        # The parser's error may quote a part of the password.
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
    """Whether the same command may succeed later: the server is down, is starting, or can't write now."""
    if isinstance(error, _REFUSALS) or _is_untrusted(error):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(_PASSING_WORDS)


def _is_untrusted(error: exceptions.RedisError) -> bool:
    """Whether the server's certificate was refused, which a retry does not change."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def what_failed(error: exceptions.RedisError) -> str:
    """Return the error as a part of a sentence for people, without the data that was sent."""
    if isinstance(error, exceptions.NoPermissionError):
        return "its user may not run commands and scripts on the keys groundrows:*"
    if isinstance(error, _REFUSALS) or "unauthenticated" in str(error):
        return "it refuses the user or the password"
    if isinstance(error, exceptions.InvalidResponse):
        return "the server there is not a Redis server"
    if isinstance(error, exceptions.TimeoutError):
        return f"it does not answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, exceptions.BusyLoadingError):
        return "it is still loading its data"
    if _is_untrusted(error):
        return "its certificate is not trusted here: name its authority's certificate in SSL_CERT_FILE"
    if isinstance(error, exceptions.ConnectionError):
        return "nothing answers there"
    if "WRONGTYPE" in str(error):
        return "a key under groundrows: holds something else"
    # Some servers repeat a command's arguments, which may include the password.
    return f"it says {str(error).partition(', with args')[0]!r}"
