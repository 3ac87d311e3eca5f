"""Commands of the evaluator, a module for each group. `evaluator/cli.py` lists them."""
