"""English names of language codes (ISO 639, with the script or region where it matters), and which of several codes
means the same language."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {
    "af": "Afrikaans", "am": "Amharic", "an": "Aragonese", "ar": "Arabic", "as": "Assamese",
    "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "br": "Breton",
    "bs": "Bosnian", "ca": "Catalan", "ceb": "Cebuano", "ckb": "Central Kurdish", "cs": "Czech", "cy": "Welsh",
    "da": "Danish", "de": "German", "dz": "Dzongkha", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fo": "Faroese",
    "fr": "French", "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician",
    "gn": "Guarani", "gu": "Gujarati", "ha": "Hausa", "haw": "Hawaiian", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hsb": "Upper Sorbian", "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "ig": "Igbo", "is": "Icelandic", "it": "Italian", "iu": "Inuktitut", "ja": "Japanese",
    "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean",
    "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "ln": "Lingala", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori", "mk": "Macedonian",
    "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese",
    "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian",
    "ny": "Chichewa", "oc": "Occitan", "or": "Odia", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto",
    "pt": "Portuguese", "pt-br": "Portuguese (Brazil)", "qu": "Quechua", "rm": "Romansh", "ro": "Romanian",
    "ru": "Russian", "rw": "Kinyarwanda", "sa": "Sanskrit", "sd": "Sindhi", "se": "Northern Sami",
    "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sm": "Samoan", "sn": "Shona", "so": "Somali",
    "sq": "Albanian", "sr": "Serbian", "st": "Sotho", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai", "ti": "Tigrinya", "tk": "Turkmen",
    "tl": "Tagalog", "tr": "Turkish", "tt": "Tatar", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu",
    "uz": "Uzbek", "vi": "Vietnamese", "vo": "Volapük", "wa": "Walloon", "wo": "Wolof", "xh": "Xhosa",
    "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zh-hans": "Chinese (simplified)",
    "zh-hant": "Chinese (traditional)", "zu": "Zulu",
}  # fmt: skip


def language_name(code: str) -> str:
    """English name of a language code in any case; a code without one here names itself."""
    return _NAMES.get(code.lower(), code)


# What other services call a language that has one code here: withdrawn codes that Google's clients still send, regions
# that stand for a script, the macro-language Norwegian.
_ALIASES = {
    "fil": ("tl",), "tl": ("fil",), "in": ("id",), "iw": ("he",), "jw": ("jv",), "nb": ("no",), "no": ("nb",),
    "pb": ("pt-br",), "yue": ("zh-hant",), "zh": ("zh-hans",), "zh-chs": ("zh-hans",), "zh-cht": ("zh-hant",),
    "zh-cn": ("zh-hans",),
    "zh-hans": ("zh-cn",), "zh-hant": ("zh-tw", "zh-hk"), "zh-hk": ("zh-hant", "zh-tw"), "zh-mo": ("zh-hant", "zh-tw"),
    "zh-sg": ("zh-hans",), "zh-tw": ("zh-hant", "zh-hk"), "zt": ("zh-hant",),
}  # fmt: skip


def base_language(code: str) -> str:
    """A code without script and region, in small letters: "en" of "en-GB", "zh" of "zh_Hans"."""
    return code.lower().replace("_", "-").partition("-")[0]


def closest(code: str, known: Iterable[str]) -> list[str]:
    """Those of `known` that mean what `code` means, the closest first: the code itself in any case, another name of
    it, the language without script and region, and, for a code that has neither itself, one that has.

    A script is never swapped for another: zh-Hant is not zh-Hans, though either may be served by a model for zh.
    """
    wanted = code.strip().lower().replace("_", "-")
    base = base_language(wanted)
    ranked = [wanted, *_ALIASES.get(wanted, ()), base, *_ALIASES.get(base, ())]
    if base == "zh":  # what a bare zh is written in is for whoever named it so; a region or a script is not
        ranked = [each for each in ranked if wanted == base or each == base or _script(each) == _script(wanted)]
    found = sorted(
        (each for each in dict.fromkeys(known) if _plain(each) in ranked), key=lambda each: ranked.index(_plain(each))
    )
    regional = [each for each in dict.fromkeys(known) if wanted == base == base_language(each) and each not in found]
    return found + regional


def _plain(code: str) -> str:
    return code.lower().replace("_", "-")


def _script(code: str) -> str:
    """Of Chinese alone: which of its two scripts a code means."""
    return "hant" if code in {"zh-hant", "zh-tw", "zh-hk", "zh-mo", "zh-cht", "yue"} else "hans"


def google_code(code: str) -> str:
    """A loaded language as Google and the extensions that learnt from it spell it: scripts of Chinese are regions."""
    return {"zh-hans": "zh-CN", "zh-hant": "zh-TW"}.get(_plain(code), code)
