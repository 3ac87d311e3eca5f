"""Calls of the gateway and of Elasticsearch, and when they are repeated."""
