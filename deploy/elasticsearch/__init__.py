"""Fetches a real Elasticsearch from Maven Central, runs it on 127.0.0.1 without Docker, stops it by its pid."""
