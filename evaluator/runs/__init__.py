"""The folder of a run and its records: manifest, answers, TREC files, whether times hold; the measurements' lock."""
