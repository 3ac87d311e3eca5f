"""Serves routes, generations, indexing and searches over an encoder and a store, for every vector service."""
