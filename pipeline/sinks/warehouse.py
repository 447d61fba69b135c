"""Rows into BigQuery, and the views over them.

An archive's rows are loaded from files at the end of the run: free of charge, and each table's all or none. A
stream's rows are inserted as they come. Either way a row may be there twice after a run that was repeated or
a message that was delivered again: the views, in `templates/sql`, take each once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.bigquery import BigQueryDisposition, BigQuerySchemaUpdateOption, WriteToBigQuery
from apache_beam.io.gcp.bigquery import BigQueryWriteFn as InsertFn
from apache_beam.io.gcp.bigquery_tools import FileFormat, RetryStrategy
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import StandardOptions

from groundrows.pipeline.options.resources import Dataset, dataset_of
from groundrows.schemas.errors import RefusedError, ShapeError, UsageError
from groundrows.schemas.rows import Row, encode
from groundrows.schemas.tables import TABLES
from groundrows.schemas.warehouse import (
    check_layout,
    json_row,
    merged,
    row_dict,
    row_id,
    table_layout,
    table_schema,
)
from groundrows.schemas.wording import reason_of
from groundrows.transforms.counters import REFUSED_ROWS

_LOGGER = logging.getLogger(__name__)


# These say that the whole table can't be written, whatever the row.
_OF_THE_TABLE = ("Not Found", "Forbidden", "Unauthorized")
# Where this is set, Google's client goes there; whoever answers asks for no credentials.
_STAND_IN = "BIGQUERY_EMULATOR_HOST"


def prepare_tables(dataset: str) -> None:
    """Make the tables that are missing, and the columns that those of an earlier version lack.

    Raises:
        UsageError: There is no such dataset, it may not be written, or a table of that name is another one.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    where = dataset_of(dataset)
    try:
        client = _client(where.project)
        client.get_dataset(str(where))
        for table in TABLES:
            _prepare_table(client, where, table)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise UsageError(f"--bigquery_dataset={dataset} can't be used: {reason_of(error)}.") from None


def _client(project: str) -> Any:
    # Here, because it takes a while and most runs don't need it.
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    return bigquery.Client(project, AnonymousCredentials() if _STAND_IN in os.environ else None)


def _prepare_table(client: Any, where: Dataset, table: str) -> None:
    from google.cloud import bigquery

    reference = {"projectId": where.project, "datasetId": where.name, "tableId": table}
    ours = {"tableReference": reference, "schema": table_schema(table), **table_layout(table)}
    there = client.create_table(bigquery.Table.from_api_repr(ours), exists_ok=True).to_api_repr()
    try:
        fields = merged(there["schema"]["fields"], ours["schema"]["fields"])
        check_layout(there, ours)
    except ShapeError as error:
        raise UsageError(
            f"The table {where}.{table} was made by somebody else: {error}; name another dataset."
        ) from None
    if fields != there["schema"]["fields"]:
        client.update_table(bigquery.Table.from_api_repr({**there, "schema": {"fields": fields}}), ["schema"])


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that BigQuery refused.

    Attributes:
        table: The table it is missing in.
        row_id: Which row: the values of the table's key columns, with slashes between.
        reasons: What BigQuery said, without the row's content: a code, and the column where it names one.
    """

    table: str
    row_id: str
    reasons: tuple[str, ...]


class WriteToWarehouse(beam.PTransform):
    """PCollection of groups of rows, of whichever tables -> PCollection of `RefusedRow`.

    Rows are added to what the tables hold; a table that is missing is made. Every refused row is counted
    (in the namespace `REFUSED_ROWS`) and reported in a sentence. A batch job then fails, since it can be run
    again. A stream goes on, unless the table is gone or may not be written; then it tries until it can.

    Args:
        dataset: `PROJECT.DATASET` or `PROJECT:DATASET`.
        temp_location: A directory on `gs://` for the files that are loaded; by default the pipeline's own.
        insert: Whether to insert rows as they come, by default in a stream only. Loading needs `gs://` and
            is free; a table takes 1,500 loads a day, so whoever runs many small batches inserts.
        tables: The tables that the rows are of: each adds its steps to the graph.

    Raises:
        UsageError: `dataset` is none.
    """

    def __init__(
        self,
        dataset: str,
        temp_location: str | None = None,
        insert: bool | None = None,
        tables: Iterable[str] = TABLES,
    ) -> None:
        super().__init__()
        self._dataset = dataset_of(dataset)
        self._temp_location = temp_location
        self._insert = insert
        self._tables = tuple(tables)

    def expand(self, groups: Any) -> Any:
        """Sort the rows by table, and write each table."""
        streaming = groups.pipeline.options.view_as(StandardOptions).streaming
        insert = streaming if self._insert is None else self._insert
        rows = groups | "By table" >> beam.ParDo(_ByTableFn(json=insert)).with_outputs(*self._tables)
        if insert:
            refused = [self._inserted(rows[table], table, fatal=not streaming) for table in self._tables]
            return refused | "Refused" >> beam.Flatten()
        for table in self._tables:
            rows[table] | f"Load {table}" >> self._load(table)
        # A load job that fails fails the whole.
        return groups.pipeline | "None is refused" >> beam.Create([])

    def _load(self, table: str) -> WriteToBigQuery:
        return WriteToBigQuery(
            table=table,
            dataset=self._dataset.name,
            project=self._dataset.project,
            schema=table_schema(table),
            method=WriteToBigQuery.Method.FILE_LOADS,
            temp_file_format=FileFormat.AVRO,
            custom_gcs_temp_location=self._temp_location,
            create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
            write_disposition=BigQueryDisposition.WRITE_APPEND,
            schema_update_options=[BigQuerySchemaUpdateOption.ALLOW_FIELD_ADDITION],
            additional_bq_parameters=table_layout(table),
        )

    def _inserted(self, rows: Any, table: str, *, fatal: bool) -> Any:
        # WriteToBigQuery would give each try of a row another insert id; its inner step takes ours.
        insert = _InsertFn(
            batch_size=None,
            schema=table_schema(table),
            create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
            write_disposition=BigQueryDisposition.WRITE_APPEND,
            retry_strategy=RetryStrategy.RETRY_ON_TRANSIENT_ERROR,
            additional_bq_parameters=table_layout(table),
        )
        name = f"{self._dataset.project}:{self._dataset.name}.{table}"
        return (
            rows
            | f"To {table}" >> beam.Map(lambda row: (name, row))
            | f"Insert {table}" >> beam.ParDo(insert).with_outputs(InsertFn.FAILED_ROWS_WITH_ERRORS)
        )[InsertFn.FAILED_ROWS_WITH_ERRORS] | f"Refused {table}" >> beam.ParDo(_RefusedFn(table, fatal))


class _ByTableFn(beam.DoFn):
    """Groups of rows -> dictionaries under their table's name; as JSON, pairs of one and its insert id."""

    def __init__(self, json: bool) -> None:
        self._json = json

    def process(self, group: Iterable[Row]) -> Iterator[beam.pvalue.TaggedOutput]:
        for row in group:
            yield beam.pvalue.TaggedOutput(row.TABLE, self._value(row))

    def _value(self, row: Row) -> Any:
        # What others say of a row that does not fit quotes it.
        encode(row)
        if not self._json:
            return row_dict(row)
        value = json_row(row)
        return value, row_id(row.TABLE, value)


def _tells_no_row(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("There were errors inserting to BigQuery")


class _InsertFn(InsertFn):
    """Beam's step without what it logs of refused rows: BigQuery's words may quote them, ours do not."""

    def setup(self) -> None:
        logging.getLogger(InsertFn.__module__).addFilter(_tells_no_row)


class _RefusedFn(beam.DoFn):
    """What the inserting step gives for a row that was refused -> `RefusedRow`."""

    def __init__(self, table: str, fatal: bool) -> None:
        self._table = table
        self._fatal = fatal
        self._refused = Metrics.counter(REFUSED_ROWS, table)

    def start_bundle(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def process(self, refused: tuple[str, dict[str, Any], Any]) -> Iterator[RefusedRow]:
        table, row, errors = refused
        self._refused.inc()
        reasons = _reasons(errors)
        said = f"BigQuery refused a row of {table}, {'; '.join(reasons)}"
        if self._fatal or any(reason in _OF_THE_TABLE for reason in reasons):
            raise RefusedError(f"{said}: mend the table, then run the same command again.")
        if reasons not in self._told:
            _LOGGER.error("%s; it is in no table, and there may be more of them.", said)
            self._told.add(reasons)
        yield RefusedRow(self._table, row_id(self._table, row), reasons)


def _reasons(errors: Any) -> tuple[str, ...]:
    if isinstance(errors, str):  # Beam's own word for a row that no request can hold
        return ("tooLarge",)
    said = ((error.get("reason", ""), error.get("location", "")) for error in errors)
    return tuple(f"{reason} at {location}" if location else str(reason) for reason, location in said)
