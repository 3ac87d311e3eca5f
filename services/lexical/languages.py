"""Owns what differs between the languages of the analysis: stop words, articles, stemmers. Pure; reads its own data."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from services.contracts.base import Language

POSSESSIVES = ("'s", "’s", "＇s", "'S", "’S", "＇S")


@dataclass(frozen=True, slots=True)
class LanguageRules:
    """What is done to the words of a language, in the order of the fields.

    `bigrams`: each two neighbours of ideographs, kana and hangul make a word. `possessives` are endings that are cut,
    `articles` are cut with their apostrophe. `stemmer`: by its name in PyStemmer; None for words as they are. `probe`
    is a text that meets every rule.
    """

    bigrams: bool
    possessives: tuple[str, ...]
    articles: frozenset[str]
    stop_words: frozenset[str]
    stemmer: str | None
    probe: str


def _rules(language: Language, data: Mapping[str, str], shared_probe: str) -> LanguageRules:
    stemmers = {"english": "porter", "cjk": None}
    return LanguageRules(
        bigrams=language == "cjk",
        possessives=POSSESSIVES if language == "english" else (),
        articles=frozenset(data.get("articles", "").split()),
        stop_words=frozenset(data.get("stop_words", "").split()),
        stemmer=stemmers.get(language, language),
        probe=data["probe"] if language == "english" else f"{shared_probe} {data['probe']}",
    )


def _read() -> dict[Language, LanguageRules]:
    data = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    return {language: _rules(language, data[language], data["english"]["probe"]) for language in get_args(Language)}


LANGUAGES: Mapping[Language, LanguageRules] = _read()
