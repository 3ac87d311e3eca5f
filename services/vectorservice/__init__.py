"""Owns what every vector service shares: routes, generations, indexing and searching over an encoder and a store."""
