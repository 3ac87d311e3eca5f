"""The report of a run, its pages and files, and what is read from several reports: history, suites."""
