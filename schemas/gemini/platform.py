"""The two places where Gemini is served, told apart by the version of the API.

The Agent Platform (formerly Vertex AI) is asked in the name of a Google Cloud project and knows the versions
v1 and v1beta1. The Developer API is asked with a key and knows v1beta and v1alpha; its v1 has no grounding.
"""

from __future__ import annotations

import re

AGENT_VERSIONS = ("v1", "v1beta1")
DEVELOPER_VERSIONS = ("v1beta", "v1alpha")

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
"""How a model is named here: by the last part of its resource's name."""

_PREFIXES = ("publishers/google/models/", "google/", "models/")


def is_agent_platform(api_version: str) -> bool:
    """Whether a version is one of the Agent Platform's.

    Raises:
        ValueError: Neither place has such a version.
    """
    if api_version in AGENT_VERSIONS:
        return True
    if api_version in DEVELOPER_VERSIONS:
        return False
    raise ValueError(
        f"Gemini has no version {api_version}: give one of {', '.join(AGENT_VERSIONS)} with a location, or "
        f"one of {', '.join(DEVELOPER_VERSIONS)} without one"
    )


def model_name(text: str) -> str | None:
    """A model's name without what people write before it (`models/`); None for what names no model."""
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text if MODEL_NAME.fullmatch(text) else None


def model_resource(location: str, model: str) -> str:
    """The resource that a request is sent to; a location is the Agent Platform's, and empty for the other."""
    return f"{location}/publishers/google/models/{model}" if location else f"models/{model}"
