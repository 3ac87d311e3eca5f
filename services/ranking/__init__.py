"""Rankings as values: what gateway and evaluator both compute with. Pure."""
