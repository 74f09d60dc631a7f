"""Language codes (ISO 639, with script or region where it matters): their English and Chinese names, and which of
several codes mean the same language.
"""

from __future__ import annotations

from collections.abc import Iterable

_ENGLISH_NAMES = {
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
    """The English name of a code in any case; the code itself where it has none here."""
    return _ENGLISH_NAMES.get(code.lower(), code)


# Other codes of a language: withdrawn codes that Google's clients still send, regions that stand for a script, the
# macro-language Norwegian.
_ALIASES = {
    "fil": ("tl",), "tl": ("fil",), "in": ("id",), "iw": ("he",), "jw": ("jv",), "nb": ("no",), "no": ("nb",),
    "pb": ("pt-br",), "yue": ("zh-hant",), "zh": ("zh-hans",), "zh-chs": ("zh-hans",), "zh-cht": ("zh-hant",),
    "zh-cn": ("zh-hans",),
    "zh-hans": ("zh-cn",), "zh-hant": ("zh-tw", "zh-hk"), "zh-hk": ("zh-hant", "zh-tw"), "zh-mo": ("zh-hant", "zh-tw"),
    "zh-sg": ("zh-hans",), "zh-tw": ("zh-hant", "zh-hk"), "zt": ("zh-hant",),
}  # fmt: skip


def base_language(code: str) -> str:
    """A code without script and region, in lower case: "en" of "en-GB", "zh" of "zh_Hans"."""
    return _normalised_code(code).partition("-")[0]


def closest_codes(code: str, known: Iterable[str]) -> list[str]:
    """The codes of `known` that mean what `code` means, the closest first: the code itself in any case, another name of
    it, the language without script and region, and, for a code that has neither itself, one that has.

    A script is never replaced by another: zh-Hant is not zh-Hans, though either may be served by a model for zh.
    """
    wanted = _normalised_code(code.strip())
    base = base_language(wanted)
    ranked = [wanted, *_ALIASES.get(wanted, ()), base, *_ALIASES.get(base, ())]
    if base == "zh" and wanted != base:  # a bare zh may be in either script; with a region or a script it is in one
        ranked = [name for name in ranked if name == base or _chinese_script(name) == _chinese_script(wanted)]
    known = list(dict.fromkeys(known))
    closest = sorted(
        (name for name in known if _normalised_code(name) in ranked),
        key=lambda name: ranked.index(_normalised_code(name)),
    )
    return closest + [name for name in known if wanted == base == base_language(name) and name not in closest]


def _normalised_code(code: str) -> str:
    return code.lower().replace("_", "-")


def _chinese_script(code: str) -> str:
    """The script of a code for Chinese."""
    return "hant" if code in {"zh-hant", "zh-tw", "zh-hk", "zh-mo", "zh-cht", "yue"} else "hans"


def google_code(code: str) -> str:
    """A code as Google spells it: with regions instead of the scripts of Chinese."""
    return {"zh-hans": "zh-CN", "zh-hant": "zh-TW"}.get(_normalised_code(code), code)


_CODES_BY_CHINESE_NAME = {
    "中文": "zh", "中文(简体)": "zh-hans", "中文(繁体)": "zh-hant", "中文(粤语)": "yue", "英语": "en", "德语": "de",
    "法语": "fr", "西班牙语": "es", "葡萄牙语": "pt", "意大利语": "it", "荷兰语": "nl", "日语": "ja", "韩语": "ko",
    "俄语": "ru", "乌克兰语": "uk", "波兰语": "pl", "捷克语": "cs", "斯洛伐克语": "sk", "斯洛文尼亚语": "sl",
    "匈牙利语": "hu", "罗马尼亚语": "ro", "保加利亚语": "bg", "克罗地亚语": "hr", "塞尔维亚语": "sr", "希腊语": "el",
    "土耳其语": "tr", "阿拉伯语": "ar", "希伯来语": "he", "波斯语": "fa", "印地语": "hi", "孟加拉语": "bn",
    "乌尔都语": "ur", "泰米尔语": "ta", "泰卢固语": "te", "泰语": "th", "越南语": "vi", "印度尼西亚语": "id",
    "印尼语": "id", "马来语": "ms", "菲律宾语": "tl", "缅甸语": "my", "高棉语": "km", "老挝语": "lo", "蒙古语": "mn",
    "丹麦语": "da", "瑞典语": "sv", "挪威语": "no", "芬兰语": "fi", "冰岛语": "is", "爱沙尼亚语": "et",
    "拉脱维亚语": "lv", "立陶宛语": "lt", "爱尔兰语": "ga", "威尔士语": "cy", "加泰罗尼亚语": "ca", "巴斯克语": "eu",
    "加利西亚语": "gl", "拉丁语": "la", "世界语": "eo", "斯瓦希里语": "sw", "南非荷兰语": "af", "阿尔巴尼亚语": "sq",
    "马其顿语": "mk", "白俄罗斯语": "be", "格鲁吉亚语": "ka", "亚美尼亚语": "hy", "哈萨克语": "kk",
}  # fmt: skip
_CHINESE_NAMES = {code: name for name, code in reversed(_CODES_BY_CHINESE_NAME.items())} | {
    "zh": "中文(简体)",
    "nb": "挪威语",
    "fil": "菲律宾语",
}


def code_of_chinese_name(name: str) -> str:
    """The code of a Chinese name, with full-width brackets or ASCII ones; anything else is taken for a code."""
    return _CODES_BY_CHINESE_NAME.get(name.strip().replace("（", "(").replace("）", ")"), name.strip())


def chinese_name(code: str) -> str:
    """The Chinese name of a code; the code itself where it has none here."""
    return _CHINESE_NAMES.get(code.lower()) or _CHINESE_NAMES.get(base_language(code), code)
