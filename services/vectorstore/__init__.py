"""Vectors on disk, found again by nearness: one promise (store), kept by Edge, Qdrant and Elasticsearch."""
