"""The argument that names a run's directory. It is the first argument of several commands."""

from __future__ import annotations

from groundrows.pipeline.options.flag import Flag, flag


def without_slash(text: str) -> str:
    """Return a directory's name without slashes at its end."""
    return text.rstrip("/") or "/"


def run_directory() -> str:
    """Declare the directory: the `--output` of a run."""
    return flag(
        "",
        Flag(
            "The --output of a run, local or gs://.",
            metavar="OUTPUT_DIR",
            positional="required",
            read=without_slash,
        ),
    )
