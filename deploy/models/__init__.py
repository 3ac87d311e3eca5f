"""The models that services open: fetched, verified, and built where a source has only weights."""
