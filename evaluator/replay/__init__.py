"""Tries other settings of pipelines on the candidates that were collected; asks no service again."""
