"""Language codes of other toolkits, converted to two letters for common languages."""

from __future__ import annotations

import re

LANGUAGE = re.compile(r"([a-z]{2,3})(?:[_-]([A-Z]{2}))?")
TWO_LETTERS = {  # common codes of ISO 639-3
    "afr": "af", "ara": "ar", "aze": "az", "bel": "be", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cym": "cy",
    "dan": "da", "deu": "de", "ell": "el", "eng": "en", "epo": "eo", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi",
    "fra": "fr", "gle": "ga", "glg": "gl", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id",
    "isl": "is", "ita": "it", "jpn": "ja", "kat": "ka", "kor": "ko", "lat": "la", "lav": "lv", "lit": "lt", "mkd": "mk",
    "mlt": "mt", "msa": "ms", "nld": "nl", "nno": "nn", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt", "ron": "ro",
    "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "sqi": "sq", "srp": "sr", "swa": "sw", "swe": "sv", "tam": "ta",
    "tgl": "tl", "tha": "th", "tur": "tr", "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh",
}  # fmt: skip
GROUPS = frozenset({  # codes of language groups in ISO 639-5, and ISO 639-2 codes that are not languages
    "aav", "afa", "alg", "alv", "apa", "aqa", "aql", "art", "ath", "auf", "aus", "awd", "azc", "bad", "bai", "bat",
    "ber", "bih", "bnt", "btk", "cai", "cau", "cba", "ccn", "ccs", "cdc", "cdd", "cel", "cmc", "cpe", "cpf", "cpp",
    "crp", "csu", "cus", "day", "dmn", "dra", "egx", "esx", "euq", "fiu", "fox", "gem", "gme", "gmq", "gmw", "grk",
    "hmx", "hok", "hyx", "iir", "ijo", "inc", "ine", "ira", "iro", "itc", "jpx", "kar", "kdo", "khi", "kro", "map",
    "mis", "mkh", "mno", "mul", "mun", "myn", "nah", "nai", "ngf", "nic", "nub", "omq", "omv", "oto", "paa", "phi",
    "plf", "poz", "pqe", "pqw", "pra", "qwe", "roa", "sai", "sal", "sdv", "sem", "sgn", "sio", "sit", "sla", "smi",
    "son", "sqj", "ssa", "syd", "tai", "tbq", "trk", "tup", "tut", "tuw", "und", "urj", "wak", "wen", "xgn", "xnd",
    "ypk", "zhx", "zle", "zls", "zlw", "znd", "zxx",
})  # fmt: skip


def language_code(name: str) -> str | None:
    """Return the code of a language, such as ``de`` or ``pt-BR``; None for a language group or an unknown name."""
    match = LANGUAGE.fullmatch(name)
    if match is None or match[1] in GROUPS:
        return None
    code = TWO_LETTERS.get(match[1], match[1])
    return f"{code}-{match[2]}" if match[2] else code
