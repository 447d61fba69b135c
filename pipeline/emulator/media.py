"""Images and videos beside an answer from Google Search, for a prompt that has a word for them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Any

from groundrows.pipeline.emulator.retrieval import Query, without
from groundrows.pipeline.emulator.text import words

IMAGE_WORDS = frozenset({"image", "photo", "picture"})
VIDEO_WORDS = frozenset({"clip", "video"})
MAX_IMAGES = 3
MAX_VIDEOS = 2


def subject_of(query: Query) -> Query:
    """A query without the words that ask for images or videos, which no page holds, if any word is left."""
    return without(query, IMAGE_WORDS | VIDEO_WORDS | {"show"})


def add_media(metadata: Any, prompt: str, wide: bool) -> None:
    """Add an image, a video or both for each of the first pages that an answer cites, if they are asked for.

    Args:
        metadata: The answer's grounding metadata, chunks included.
        prompt: The last user turn.
        wide: Whether there may be videos and the names of sites, which v1 has no fields for.
    """
    asked = IMAGE_WORDS.union(VIDEO_WORDS).intersection(words(prompt))
    pages = list({chunk.uri: chunk for chunk in metadata.support_chunks if chunk.uri}.values())
    if asked & IMAGE_WORDS:
        for page in pages[:MAX_IMAGES]:
            image = metadata.images.add()
            image.image.uri, image.image.width, image.image.height = f"{page.uri}/image.jpg", 1200, 800
            image.thumbnail.uri, image.thumbnail.width, image.thumbnail.height = (
                f"{page.uri}/small.jpg",
                150,
                100,
            )
            image.source.uri, image.source.title = page.uri, page.title
            if wide:
                image.source.site_display_name = page.domain
    if asked & VIDEO_WORDS and wide:
        for page in pages[:MAX_VIDEOS]:
            digest = blake2b(page.uri.encode(), digest_size=8).digest()
            metadata.videos.add(youtube_external_id=urlsafe_b64encode(digest).decode().rstrip("="))
