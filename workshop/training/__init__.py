"""Trains our cross-encoder: reads pairs, mines candidates, learns, exports, weighs. In no image; extra `training`."""
