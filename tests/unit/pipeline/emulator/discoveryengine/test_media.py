from __future__ import annotations

from typing import Any

import pytest

from groundrows.pipeline.emulator.discoveryengine.answers import add_media
from groundrows.pipeline.emulator.discoveryengine.messages import Response


def metadata_of(*uris: str) -> Any:
    metadata = Response().candidates.add().grounding_metadata
    for uri in uris:
        metadata.support_chunks.add(uri=uri, title="A page", domain="a.example")
    return metadata


PAGES = [f"https://a.example/{i}" for i in range(5)]


@pytest.mark.parametrize(("images", "videos"), [(0, 0), (3, 0), (1, 0), (0, 2), (3, 2), (5, 5)])
def test_there_are_as_many_as_were_wanted(images: int, videos: int) -> None:
    metadata = metadata_of(*PAGES)
    add_media(metadata, images, videos, wide=True)
    assert (len(metadata.images), len(metadata.videos)) == (images, videos)


def test_an_image_is_of_a_cited_page_and_each_page_has_one() -> None:
    metadata = metadata_of(PAGES[0], PAGES[0], "", PAGES[1])
    add_media(metadata, 3, 3, wide=True)
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
    add_media(metadata, 3, 2, wide=False)
    assert len(metadata.images) == 3
    assert not metadata.images[0].source.site_display_name
    assert not metadata.videos
