"""For `--flat`: makes one row per answer, with its sources and the fields of its metadata as columns."""

from __future__ import annotations

import duckdb

from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import quoted

# A spreadsheet has room for about this many columns besides the others.
MOST_METADATA_COLUMNS = 16_000
_LEFT_OUT = (
    "search_suggestions_html",
    "search_sdk_blob",
    "retrieval",
    "images",
    "videos",
    "metadata",
    "request_json",
    "response_json",
)
_ANSWER = "run_id, answer_id, answered_at"


def flat(db: duckdb.DuckDBPyConnection) -> str:
    """Return the query over `answers` and `support_chunks`.

    Several texts in one column are separated by line breaks. A metadata field becomes a column of numbers or
    booleans when all rows with the field have such a value. Otherwise it becomes text; lists and objects are
    written as JSON.

    Raises:
        UsageError: The metadata has too many different fields.
    """
    sources = f"""
        SELECT {_ANSWER},
          string_agg(coalesce(title, uri, document_id, source), chr(10) ORDER BY chunk_index) AS sources,
          string_agg(uri, chr(10) ORDER BY chunk_index) AS source_uris,
          string_agg(DISTINCT domain, chr(10) ORDER BY domain) AS source_domains
        FROM support_chunks GROUP BY {_ANSWER}
    """
    # DuckDB's join does not keep the order of rows, so `place` restores it.
    return f"""
        SELECT a.* EXCLUDE ({", ".join((*_LEFT_OUT, "web_search_queries", "warnings", "place"))}),
          a.chunk_count AS source_count, s.sources, s.source_uris, s.source_domains,
          array_to_string(a.web_search_queries, chr(10)) AS web_search_queries,
          array_to_string(a.warnings, chr(10)) AS warnings{_metadata(db)}
        FROM (SELECT *, row_number() OVER () AS place FROM answers) AS a
        LEFT JOIN ({sources}) AS s USING ({_ANSWER})
        ORDER BY a.place
    """


def _metadata(db: duckdb.DuckDBPyConnection) -> str:
    """Return SQL for the metadata's fields as columns, ordered by name."""
    found = db.execute(
        """
        SELECT name, list(DISTINCT kind), bool_and(try_cast(value AS BIGINT) IS NOT NULL)
        FROM (
          SELECT name, json_type(metadata, path) AS kind, json_extract_string(metadata, path) AS value
          FROM (
            SELECT metadata, name,
              '$."' || replace(replace(name, chr(92), chr(92) || chr(92)), '"', chr(92) || '"') || '"' AS path
            FROM (SELECT metadata, unnest(json_keys(metadata)) AS name FROM answers)
          )
        )
        WHERE kind != 'NULL' GROUP BY name ORDER BY name
        """
    ).fetchall()
    if len(found) > MOST_METADATA_COLUMNS:
        raise UsageError(
            f"The metadata has {len(found):,} different fields, such as {quoted(found[0][0])}, which are too "
            "many for columns: leave out --flat."
        )
    return "".join(f",\n{_field(name, set(kinds), fits_long)}" for name, kinds, fits_long in found)


def _field(name: str, kinds: set[str], fits_long: bool) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("'", "''")
    value = f"json_extract_string(a.metadata, '$.\"{escaped}\"')"
    if kinds <= {"BIGINT", "UBIGINT"} and fits_long:
        value = f"CAST({value} AS BIGINT)"
    elif kinds <= {"BIGINT", "UBIGINT", "DOUBLE"} and "DOUBLE" in kinds:
        value = f"CAST({value} AS DOUBLE)"
    elif kinds == {"BOOLEAN"}:
        value = f"CAST({value} AS BOOLEAN)"
    column = name.replace('"', '""')
    return f'{value} AS "metadata.{column}"'
