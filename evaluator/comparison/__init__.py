"""Compares rankings of the same queries: statistics, verdict, latency ratios, examples.

`paired_tests` and `list_overlap` are pure; `verdict` puts their figures into a sentence. Leaves the metrics to
`evaluator.metrics.quality` and the files of a run to `evaluator.runs.run_folder`.
"""
