"""Vectors on disk, found again by nearness: one promise (store), two engines (Qdrant Edge, Qdrant server)."""
