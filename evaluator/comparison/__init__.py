"""Compares rankings of the same queries: statistics, verdict, examples.

`paired_tests` is pure; `verdict` puts its figures into a sentence. Leaves the metrics to
`evaluator.metrics.quality` and the files of a run to `evaluator.runs.run_folder`.
"""
