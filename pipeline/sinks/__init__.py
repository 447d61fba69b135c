"""Where rows go: files, files of a stream, BigQuery, and a topic for failures."""
