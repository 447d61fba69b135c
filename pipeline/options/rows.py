"""The flags that say where rows are written, and when the run counts as failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from groundrows.pipeline.options.flag import DAY_SECONDS, MOST, Flag, Only, Parameter, flag
from groundrows.pipeline.options.resources import TOPIC, dataset_of
from groundrows.pipeline.storage.row_formats.names import NAMES
from groundrows.schemas.errors import UsageError


def _directory(text: str) -> str:
    return text.rstrip("/") or "/"


def _dataset(text: str) -> str:
    return str(dataset_of(text))


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Where rows are written. `output` has no slash at its end; it is empty for a plan without `--output`."""

    GROUP: ClassVar[str] = "what comes out"

    output: str = flag(
        "",
        Flag(
            "The directory of the rows, local or gs://.",
            metavar="DIR",
            empty="absent",
            read=_directory,
            replayed=False,
            template=Parameter("GCS_WRITE_FOLDER", required=True),
        ),
    )
    row_format: str | None = flag(
        None,
        Flag(
            "The format of the files of rows. Rows that are added to others take the format that is there.",
            choices=NAMES,
            default_said="that of the rows in --output, else avro",
        ),
    )
    keep_response: bool = flag(False, Flag("Keep the raw response beside each answer."))
    window_seconds: float = flag(
        60.0,
        Flag("Start a new file every S seconds.", metavar="S", least=1, most=DAY_SECONDS, only=Only.STREAMS),
    )
    output_shards: int = flag(
        1,
        Flag(
            "Number of files per table that are started every --window_seconds.",
            metavar="N",
            least=1,
            most=MOST,
            only=Only.STREAMS,
        ),
    )
    failures_topic: str | None = flag(
        None,
        Flag(
            "Publish failures to this Pub/Sub topic too.",
            metavar="projects/P/topics/T",
            pattern=TOPIC,
            noun="topic",
            example="projects/PROJECT/topics/NAME",
            empty="absent",
            template=Parameter("PUBSUB_TOPIC"),
        ),
    )
    bigquery_dataset: str | None = flag(
        None,
        Flag(
            "Write the rows to tables in this BigQuery dataset too.",
            metavar="PROJECT.DATASET",
            empty="absent",
            read=_dataset,
        ),
    )
    overwrite: bool = flag(
        False,
        Flag(
            "Replace the rows of a finished run. Answers in the ledger are not paid for again, unless "
            "--ledger=none.",
            replayed=False,
            template=Parameter(in_stream=False),
        ),
    )
    append: bool = flag(
        False,
        Flag(
            "Ask only the questions that --output holds no answer for, and add to its rows.",
            replayed=False,
            template=Parameter(in_stream=False),
        ),
    )
    max_failure_share: float = flag(
        1.0,
        Flag(
            "Exit with code 3 when more than this share of the records failed, from 0 to 1.",
            metavar="SHARE",
            least=0,
            most=1,
            template=Parameter(in_stream=False),
        ),
    )
    quiet: bool = flag(False, Flag("Print neither progress nor summary.", replayed=False, template=None))


def check_output(values: Mapping[str, Any]) -> None:
    """Check that `--output` is given.

    Raises:
        UsageError: It is not.
    """
    if not values["output"]:
        raise UsageError("Nothing says where the rows go: give --output=DIR.")


def check_rows(values: Mapping[str, Any]) -> None:
    """Check that the flags of the output fit together.

    Raises:
        UsageError: Two of them contradict each other.
    """
    if values["overwrite"] and values["append"]:
        raise UsageError("--overwrite replaces what is there and --append adds to it: give only one of them.")
    if values["append"] and values["mode"] == "check":
        raise UsageError(
            "--append looks for answers in --output, and --mode=check writes none: name another --output; "
            "the ledger keeps the checks that were made."
        )
