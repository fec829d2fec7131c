"""Well-known column names, in any case: texts, labels, pairs, words and tags, sessions, nodes, splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from regard.errors import DataError

PAIR = ("source", "target")
# The sides of a pair: the first row counts for which both columns exist.
SIDES = (
    PAIR, ("source", "translation"), ("src", "tgt"), ("src", "trg"), ("source_text", "target_text"),
    ("document", "summary"), ("article", "summary"), ("dialogue", "summary"), ("text", "summary"),
    ("article", "highlights"), ("body", "subject"), ("question", "answer"), ("input", "output"),
    ("word", "pronunciation"), ("grapheme", "phoneme"),
)  # fmt: skip
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,8})?")
LANGUAGE_CODES = frozenset(
    code
    for codes in (
        "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch",
        "co cr cs cu cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy",
        "ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it",
        "iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo",
        "lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny",
        "oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl",
        "sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty",
        "ug uk ur uz ve vi vo wa wo xh yi yo za zh zu",
    )
    for code in codes.split()
)  # ISO 639-1
LANGUAGE_NAMES = {
    "arabic": "ar", "bulgarian": "bg", "catalan": "ca", "chinese": "zh", "croatian": "hr", "czech": "cs",
    "danish": "da", "deutsch": "de", "dutch": "nl", "english": "en", "estonian": "et", "finnish": "fi", "french": "fr",
    "german": "de", "greek": "el", "hebrew": "he", "hindi": "hi", "hungarian": "hu", "indonesian": "id",
    "italian": "it", "japanese": "ja", "korean": "ko", "latvian": "lv", "lithuanian": "lt", "norwegian": "no",
    "persian": "fa", "polish": "pl", "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr",
    "slovak": "sk", "slovenian": "sl", "spanish": "es", "swahili": "sw", "swedish": "sv", "thai": "th",
    "turkish": "tr", "ukrainian": "uk", "urdu": "ur", "vietnamese": "vi",
}  # fmt: skip
TEXTS = (
    "text", "sentence", "review", "comment", "content", "body", "message", "tweet", "utterance", "question", "document",
    "headline", "title", "sequence", "input",
)  # fmt: skip
LABELS = (
    "label", "labels", "class", "category", "sentiment", "target", "stars", "rating", "score", "intent", "topic",
    "polarity", "emotion", "gold_label", "entailment_label", "entailment_judgment", "relatedness_score",
    "is_duplicate", "y",
)  # fmt: skip
TEXT_PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"),
    ("text1", "text2"), ("text_a", "text_b"), ("question1", "question2"),
)  # fmt: skip
PATHS = ("path", "audio_filepath", "file", "filename", "file_name", "filepath", "audio", "image", "wav")
SPEAKERS = ("speaker", "speaker_id", "speakerid", "client_id", "spk", "spk_id")
PROMPTS, COMPLETIONS = ("prompt", "instruction"), ("completion", "response")
DOCUMENTS = ("text", "document", "content", "body")
WORDS, TAGS = ("tokens", "words"), ("tags", "ner_tags", "pos_tags", "upos", "pos", "labels")  # one sentence per row
WORD, TAG = ("token", "word", "form"), ("tag", "ner", "ner_tag", "pos_tag", "upos", "pos", "label")  # one word per line
SESSIONS = (
    "session", "session_id", "sessionid", "user", "user_id", "userid", "customer", "customer_id", "customerid",
    "visitor", "visitor_id", "visitorid",
)  # fmt: skip
ITEMS = (
    "item", "item_id", "itemid", "product", "product_id", "productid", "track_id", "trackid", "movie_id", "movieid",
    "article_id", "articleid", "song_id", "songid",
)  # fmt: skip
ITEM_LISTS = ("items",)
TIMES = ("timestamp", "time", "date", "datetime", "unixtime", "unix_time", "event_time", "created_at", "ts")
NODES = ("node", "node_id", "nodeid", "id", "name")
SPLITS = ("split", "part", "subset", "fold_name")
EDGES = (
    ("source", "target"), ("from", "to"), ("src", "dst"), ("src", "tgt"), ("head", "tail"), ("node1", "node2"),
    ("node_1", "node_2"), ("source_id", "target_id"), ("from_id", "to_id"), ("u", "v"),
)  # fmt: skip
PARTS = {
    "train": "train", "training": "train", "valid": "valid", "val": "valid", "validation": "valid", "dev": "valid",
    "development": "valid", "test": "test", "testing": "test",
}  # fmt: skip


def first_of(names: Sequence[str], known: Iterable[str]) -> str | None:
    """Return the column whose name, in any case, is the first of the ``known`` names."""
    by_lower_case = {name.strip().lower(): name for name in reversed(names)}
    return next((by_lower_case[name] for name in known if name in by_lower_case), None)


def _first_pair(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    for one, other in pairs:
        first, second = first_of(names, [one]), first_of(names, [other])
        if first is not None and second is not None:
            return first, second
    return None


def language_codes(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two names if they are all columns of a table and different language codes or names; otherwise None."""
    known = all(LANGUAGE.fullmatch(name) or name.strip().lower() in LANGUAGE_NAMES for name in names)
    return (names[0], names[1]) if known and len(names) == 2 and names[0] != names[1] else None


def _name_languages(cells: Sequence[str]) -> bool:
    """Return whether two cells are two language names, or two language codes that include ``en``.

    Other codes alone do not count, since many of them are also words.
    """
    if language_codes(cells) is None:
        return False
    words = [cell.strip().lower() for cell in cells]
    by_code = LANGUAGE_CODES.issuperset(words) and "en" in words
    return by_code or LANGUAGE_NAMES.keys() >= {*words}


def pair_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the source and target columns; None if the names do not identify them."""
    return _first_pair(names, SIDES) or language_codes(names)


def text_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of a text pair, or the column of one text; [] if no name is known."""
    pair = _first_pair(names, TEXT_PAIRS)
    text = first_of(names, TEXTS)
    return list(pair) if pair is not None else [] if text is None else [text]


def document_columns(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns of a document: a prompt and its completion, or a text."""
    prompt, completion = first_of(names, PROMPTS), first_of(names, COMPLETIONS)
    if prompt is not None and completion is not None:
        return prompt, completion
    text = first_of(names, DOCUMENTS)
    return None if text is None else (text,)


def tagged_columns(names: Sequence[str], *, word_a_line: bool = False) -> tuple[str, str] | None:
    """Return the columns of words and tags, as lists or one word per line; None if the names do not identify them."""
    words = first_of(names, (*WORDS, *WORD) if word_a_line else WORDS)
    tags = first_of(names, (*TAGS, *TAG) if word_a_line else TAGS)
    return None if words is None or tags is None else (words, tags)


def session_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of the session and the item; None if the names do not identify them."""
    session, item = first_of(names, SESSIONS), first_of(names, ITEMS)
    return None if session is None or item is None else (session, item)


def time_column(names: Sequence[str]) -> str | None:
    """Return the column of the time; None if no name is known."""
    return first_of(names, TIMES)


def edge_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of the two ends of an edge; None if the names do not identify them."""
    return _first_pair(names, EDGES)


def label_like(names: Iterable[str]) -> list[str]:
    """Return the columns whose names suggest labels, tags or targets."""
    known = {*LABELS, *TAGS, *TAG, *(target for _, target in SIDES), *COMPLETIONS}
    return [name for name in names if name.strip().lower() in known]


def is_head(cells: Sequence[str]) -> bool:
    """Return whether the first line of a file without quoting consists of well-known column names."""
    labeled = text_columns(cells) and first_of(cells, LABELS) is not None
    return len(cells) > 1 and (
        bool(labeled)
        or (first_of(cells, PATHS) is not None and first_of(cells, LABELS) is not None)
        or _first_pair(cells, SIDES) is not None
        or tagged_columns(cells, word_a_line=True) is not None
        or session_columns(cells) is not None
        or _name_languages(cells)
    )


def part_of(cell: str, where: str) -> str:
    """Return the split that a cell names: train, valid or test. Raises DataError for any other value."""
    part = PARTS.get(cell.strip().lower())
    if part is None:
        known = "train, valid (val, validation, dev) and test"
        raise DataError(f"unknown split {cell[:40]!r}", where=where, why=f"the splits are {known}")
    return part


def unnamed_counters(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the positions of unnamed columns that count the rows from 0 or 1: the index written by a data frame."""
    counters = []
    for position, name in enumerate(names):
        if name.strip() and not name.startswith("Unnamed: "):
            continue
        cells = [row[position] for row in rows]
        if any(cells == [str(number) for number in range(start, start + len(cells))] for start in (0, 1)):
            counters.append(position)
    return counters
