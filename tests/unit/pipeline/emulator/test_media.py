from __future__ import annotations

from typing import Any

import pytest

from groundrows.pipeline.emulator.media import MAX_IMAGES, MAX_VIDEOS, add_media, subject_of
from groundrows.pipeline.emulator.messages import Response
from groundrows.pipeline.emulator.retrieval import to_query


def metadata_of(*uris: str) -> Any:
    metadata = Response().candidates.add().grounding_metadata
    for uri in uris:
        metadata.support_chunks.add(uri=uri, title="A page", domain="a.example")
    return metadata


PAGES = [f"https://a.example/{i}" for i in range(5)]


@pytest.mark.parametrize(
    ("prompt", "images", "videos"),
    [
        ("What is the highest mountain?", 0, 0),
        ("Show me images of it.", MAX_IMAGES, 0),
        ("A picture, please", MAX_IMAGES, 0),
        ("PHOTOS?", MAX_IMAGES, 0),
        ("Is there a video of it?", 0, MAX_VIDEOS),
        ("Videos and photos", MAX_IMAGES, MAX_VIDEOS),
        ("I imagine videotape", 0, 0),
    ],
)
def test_they_are_there_for_those_who_ask(prompt: str, images: int, videos: int) -> None:
    metadata = metadata_of(*PAGES)
    add_media(metadata, prompt, wide=True)
    assert (len(metadata.images), len(metadata.videos)) == (images, videos)


def test_an_image_is_of_a_cited_page_and_each_page_has_one() -> None:
    metadata = metadata_of(PAGES[0], PAGES[0], "", PAGES[1])
    add_media(metadata, "images and videos", wide=True)
    assert [image.source.uri for image in metadata.images] == PAGES[:2]
    for image in metadata.images:
        assert image.image.uri.startswith(image.source.uri)
        assert image.image.width > image.thumbnail.width > 0
        assert image.image.height > image.thumbnail.height > 0
        assert (image.source.title, image.source.site_display_name) == ("A page", "a.example")
    ids = [video.youtube_external_id for video in metadata.videos]
    assert len(set(ids)) == 2
    assert all(len(youtube_id) == 11 for youtube_id in ids)


def test_v1_has_images_alone() -> None:
    metadata = metadata_of(*PAGES)
    add_media(metadata, "images and videos", wide=False)
    assert len(metadata.images) == MAX_IMAGES
    assert not metadata.images[0].source.site_display_name
    assert not metadata.videos


def test_the_words_that_ask_for_them_are_not_searched_for() -> None:
    query = to_query(["The Louvre.", "Show me images and a video of the Mona Lisa."])
    assert subject_of(query).latest == ("mona", "lisa")
    assert subject_of(query).earlier == query.earlier
    assert subject_of(to_query(["Show me images"])).latest == ("show", "image")
