"""Judging: pools of unjudged documents, grades of several judges, their agreement, and which pair to judge next."""
