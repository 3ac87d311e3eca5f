"""Owns lexical search and the document store: one port (`engine`), two adapters (Qdrant Edge, Elasticsearch)."""
