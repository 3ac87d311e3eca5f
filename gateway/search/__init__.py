"""A search: its plan from a pipeline, the walk over its stages, and the hits that they give."""
