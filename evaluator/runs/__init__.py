"""The folder of a run and the records in it: manifest, answers, TREC files, and whether their times hold."""
