"""Generates queries for documents, as files of expansions that the lexical service takes."""
