"""Renders a load: its page, charts and tables, and its section of a report. Pure but for the files of the page."""
