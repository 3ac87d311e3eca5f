"""Tunes the pipelines of a run on the candidates that were collected: weights, normalisation, depth of re-ranking."""
