"""Writes rows into BigQuery.

An archive's rows are loaded from files at the end of the run. Loading is free of charge, and a table gets all
rows or none. A stream's rows are inserted as they come.

In both cases a table may hold a row twice: after a repeated run, or when Pub/Sub delivered a message again.
The views in `templates/sql` show each row once.
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


# With these reasons, no row of the table can be written.
_OF_THE_TABLE = ("Not Found", "Forbidden", "Unauthorized")
# Google's client uses the emulator that this variable names, and the emulator needs no credentials.
_STAND_IN = "BIGQUERY_EMULATOR_HOST"


def prepare_tables(dataset: str) -> None:
    """Create missing tables, and add columns that tables of an earlier version lack.

    Raises:
        UsageError: The dataset does not exist or may not be written to, or one of its tables has a layout
            that is not ours.
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
    # Imported here because the import is slow and most runs don't need it.
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
            f"The table {where}.{table} was not created by this program: {error}; name another dataset."
        ) from None
    if fields != there["schema"]["fields"]:
        client.update_table(bigquery.Table.from_api_repr({**there, "schema": {"fields": fields}}), ["schema"])


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that BigQuery refused.

    Attributes:
        table: The table that the row was for.
        row_id: The values of the row's key columns, separated by slashes.
        reasons: BigQuery's error codes, each with the column if BigQuery named one. They hold no content of
            the row.
    """

    table: str
    row_id: str
    reasons: tuple[str, ...]


class WriteToWarehouse(beam.PTransform):
    """Takes a PCollection of groups of rows of any tables; gives a PCollection of `RefusedRow`.

    Rows are added to the tables; missing tables are created. Each refused row is counted (in the namespace
    `REFUSED_ROWS`) and logged. A batch job then fails, because it can be run again. A stream continues,
    unless the table does not exist or may not be written to: then it retries until it can.

    Args:
        dataset: `PROJECT.DATASET` or `PROJECT:DATASET`.
        temp_location: A directory on `gs://` for the files to load; by default the pipeline's own.
        insert: True to insert rows as they come, False to load them from files on `gs://`. By default only
            streams insert. Loading is free, but a table takes 1,500 loads a day; insert when you run many
            small batches.
        tables: The tables that the rows belong to. Each table adds steps to the graph.

    Raises:
        UsageError: `dataset` is not a valid dataset name.
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
        """Separate the rows by table, and write each table."""
        streaming = groups.pipeline.options.view_as(StandardOptions).streaming
        insert = streaming if self._insert is None else self._insert
        rows = groups | "By table" >> beam.ParDo(_ByTableFn(json=insert)).with_outputs(*self._tables)
        if insert:
            refused = [self._inserted(rows[table], table, fatal=not streaming) for table in self._tables]
            return refused | "Refused" >> beam.Flatten()
        for table in self._tables:
            rows[table] | f"Load {table}" >> self._load(table)
        # Loading refuses no single row: a failed load job fails the whole pipeline.
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
        # The insert ID lets BigQuery drop repeated rows. WriteToBigQuery gives each attempt a new one; its
        # inner step, used here, takes the row's own ID.
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
    """Takes groups of rows; gives one output of dictionaries for each table.

    With `json`, an element is a pair of a JSON dictionary and its insert ID.
    """

    def __init__(self, json: bool) -> None:
        self._json = json

    def process(self, group: Iterable[Row]) -> Iterator[beam.pvalue.TaggedOutput]:
        for row in group:
            yield beam.pvalue.TaggedOutput(row.TABLE, self._value(row))

    def _value(self, row: Row) -> Any:
        # `encode` raises our error for a row that does not fit; the errors of other code quote the row.
        encode(row)
        if not self._json:
            return row_dict(row)
        value = json_row(row)
        return value, row_id(row.TABLE, value)


def _tells_no_row(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("There were errors inserting to BigQuery")


class _InsertFn(InsertFn):
    """Beam's step for inserting, without its log messages about refused rows, which may quote the rows."""

    def setup(self) -> None:
        logging.getLogger(InsertFn.__module__).addFilter(_tells_no_row)


class _RefusedFn(beam.DoFn):
    """Takes the refused rows of the inserting step; gives `RefusedRow`s."""

    def __init__(self, table: str, fatal: bool) -> None:
        self._table = table
        self._fatal = fatal
        self._refused = Metrics.counter(REFUSED_ROWS, table)

    def start_bundle(self) -> None:
        self._logged: set[tuple[str, ...]] = set()

    def process(self, refused: tuple[str, dict[str, Any], Any]) -> Iterator[RefusedRow]:
        table, row, errors = refused
        self._refused.inc()
        reasons = _reasons(errors)
        said = f"BigQuery refused a row of {table}, {'; '.join(reasons)}"
        if self._fatal or any(reason in _OF_THE_TABLE for reason in reasons):
            raise RefusedError(f"{said}: repair the table, then run the same command again.")
        if reasons not in self._logged:
            _LOGGER.error("%s; the row was not inserted, and there may be more such rows.", said)
            self._logged.add(reasons)
        yield RefusedRow(self._table, row_id(self._table, row), reasons)


def _reasons(errors: Any) -> tuple[str, ...]:
    if isinstance(errors, str):  # Beam gives a text instead of a list for a row too large for any request
        return ("tooLarge",)
    said = ((error.get("reason", ""), error.get("location", "")) for error in errors)
    return tuple(f"{reason} at {location}" if location else str(reason) for reason, location in said)
