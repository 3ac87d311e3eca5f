"""A real Elasticsearch without Docker: fetched from Maven Central, run on 127.0.0.1, stopped by its own pid."""
