"""HTML pages of reports and of the evaluator's service, rendered from templates. Knows no HTTP and reads no run."""
