"""The evaluator over HTTP: jobs, their pages, and the forms of judging."""
