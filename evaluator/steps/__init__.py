"""The steps that fill a run folder: ingest, rank, quality, costs, import and export."""
