"""Sentences of documents in any script, taken as queries."""

import json
import unicodedata
from pathlib import Path

import pytest

from evaluator.datasets.questions import known_items

# Sentences that can be a query, by the script; a document of each has them one after the other.
DOCUMENTS: dict[str, tuple[str, ...]] = {
    "Chinese": (
        "自行车的刹车片磨损以后需要尽快更换，否则骑行会非常危险，尤其是在下雨天的山路上。",
        "今天天气很好！",
        "你会自己修车吗？",
    ),
    "Chinese in quotation marks": ("他昨天打电话说：“自行车的刹车坏了。”",),
    "Japanese": ("自転車のブレーキパッドは定期的に交換してください。", "「もう遅い。」と彼女は言った。"),
    "Hindi": ("घिसे हुए ब्रेक पैड को समय पर बदलना बहुत ज़रूरी है।", "क्या आप हर महीने अपनी साइकिल की जाँच करते हैं?"),
    "Thai": ("ผ้าเบรกจักรยานที่สึกหรอต้องเปลี่ยนทันที", "มิฉะนั้นอาจเกิดอุบัติเหตุร้ายแรงได้"),
    "Lao": ("ພາສາລາວເປັນພາສາທາງການຂອງປະເທດລາວ",),
    "Khmer": ("ភាសាខ្មែរជាភាសាផ្លូវការរបស់ប្រទេសកម្ពុជា។",),
    "Burmese": ("မြန်မာဘာသာစကားသည် မြန်မာနိုင်ငံ၏ ရုံးသုံးဘာသာစကား ဖြစ်သည်။",),
    "Arabic": ("يَجِبُ تَغْيِيرُ بِطَانَةِ المَكَابِحِ عِنْدَمَا تَتَآكَلُ.", "هل تفحص دراجتك في كل شهر من السنة؟"),
    "Urdu": ("گھسے ہوئے بریک پیڈ کو وقت پر بدلنا ضروری ہے۔",),
    "Tamil": ("தேய்ந்த பிரேக் பட்டைகளை உடனே மாற்ற வேண்டும் இல்லையெனில் ஆபத்து.",),
    "Georgian": ("გაცვეთილი სამუხრუჭე ხუნდები დროულად უნდა შეიცვალოს ახლით.",),
    "Amharic": ("ያረጁ የብስክሌት ፍሬኖች በጊዜው መቀየር አለባቸው ማለት ነው።",),
    "Armenian": ("Մաշված արգելակի կոճղակները պետք է ժամանակին փոխել նորերով։",),
    "Korean": ("닳은 자전거 브레이크 패드는 제때 새것으로 바꿔야 합니다.",),
    "Yoruba": ("Ọmọ náà ń ka ìwé rẹ̀ ní ilé ẹ̀kọ́ lójoojúmọ́.",),
    "Vietnamese": ("Má phanh xe đạp bị mòn cần được thay ngay.",),
    "English": ("Worn brake pads must be replaced soon.", "Do you look at them every month?"),
}
# What is no sentence to be asked for.
NONE = {
    "a few words": "Worn pads. 自行车。हिन्दी भाषा। ภาษา",
    "the rest of a sentence": "e.g. this is the rest of one",
    "the rest of a sentence with marks": unicodedata.normalize("NFD", "é assim que se troca o travão gasto."),
    "figures": "12 34 56 78 90 12 34. १२ ३४ ५६ ७८ ९० १२ ३४।",
    "a long sentence": "word " * 26 + "。" + "字" * 60 + "。" + "ก" * 120,
}


def corpus(folder: Path, *texts: str) -> Path:
    path = folder / "corpus.jsonl"
    lines = [json.dumps({"_id": str(at), "title": "", "text": text}) for at, text in enumerate(texts)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def separator(script: str) -> str:
    return "" if script in ("Chinese", "Japanese") else " "


@pytest.mark.parametrize("script", DOCUMENTS)
def test_each_sentence_of_a_document_in_any_script_can_be_a_question(script: str, tmp_path: Path) -> None:
    sentences = DOCUMENTS[script]
    path = corpus(tmp_path, separator(script).join(sentences))
    drawn = {next(iter(known_items(path, 1, seed))) for seed in range(40)}
    assert drawn == set(sentences)


@pytest.mark.parametrize("case", NONE)
def test_what_is_no_sentence_of_its_own_is_no_question(case: str, tmp_path: Path) -> None:
    assert known_items(corpus(tmp_path, NONE[case]), 1, 7) == {}


def test_a_sentence_of_two_documents_is_no_question(tmp_path: Path) -> None:
    path = corpus(tmp_path, "今天天气很好！自行车的刹车片需要更换。", "今天天气很好！")
    assert known_items(path, 9, 7) == {"自行车的刹车片需要更换。": "0"}
