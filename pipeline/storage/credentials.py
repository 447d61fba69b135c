"""Checks for credentials before anything searches for them, which takes minutes where there are none."""

from __future__ import annotations

import os
from collections.abc import Iterable

from groundrows.pipeline.storage.uris import on_cloud_storage
from groundrows.schemas.errors import UsageError


def need_credentials() -> None:
    """Raise `UsageError` when there are no credentials for Google Cloud."""
    import google.auth
    import google.auth.exceptions

    try:
        google.auth.default()
    except google.auth.exceptions.GoogleAuthError:
        raise UsageError(
            "No credentials for Google Cloud were found: run `gcloud auth application-default login`, or "
            "name a key file in GOOGLE_APPLICATION_CREDENTIALS."
        ) from None


def check_storage(paths: Iterable[str]) -> None:
    """Refuse paths on Cloud Storage when there are no credentials. Beam would search for them for minutes."""
    if any(map(on_cloud_storage, paths)) and "STORAGE_EMULATOR_HOST" not in os.environ:
        need_credentials()
