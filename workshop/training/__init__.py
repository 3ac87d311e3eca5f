"""Trains our cross-encoder: mines candidates, trains, exports, quantises, chooses its weight. Extra `training`."""
