"""The places that rows are written to: files, files of a stream, BigQuery, and a topic for failures."""
