"""Stores vectors and finds the nearest: one port (store), with adapters for Edge, Qdrant and Elasticsearch."""
