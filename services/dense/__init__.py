"""Serves dense retrieval: encodes documents and queries with one model, and finds the nearest documents."""
