"""Commands of the evaluator, a module for each group. `evaluator/__main__.py` lists them."""
