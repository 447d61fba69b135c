"""The service's request and response as plain protobuf classes, the same pair for v1 and v1beta.

v1beta's messages hold every field of v1's under the same number and type (a test compares the
descriptors), so one set of classes reads and writes both versions.
"""

from __future__ import annotations

from typing import Any

from google.cloud.discoveryengine_v1beta.types import grounded_generation_service as _types

Request = _types.GenerateGroundedContentRequest.pb()
Response = _types.GenerateGroundedContentResponse.pb()

_Metadata = Response.Candidate.GroundingMetadata
Retrieved = _Metadata.RetrievalMetadata
FactChunk = _types.grounding.FactChunk.pb()


def text_of(content: Any) -> str:
    """The text parts of a `GroundedGenerationContent`, one after another."""
    return "".join(part.text for part in content.parts)


def user_turns(request: Any) -> list[str]:
    """The user's turns of a request, oldest first; a content without a role counts as the user's."""
    return [text_of(content) for content in request.contents if content.role in ("user", "")]
