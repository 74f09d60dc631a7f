"""Chinese names of languages, as menus of Chinese programs have them."""

from __future__ import annotations

from app.text.languages import base_language

_CODES = {
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
_NAMES = {code: name for name, code in reversed(_CODES.items())} | {
    "zh": "中文(简体)",
    "nb": "挪威语",
    "fil": "菲律宾语",
}


def code_of(name: str) -> str:
    """Of a Chinese name, full-width brackets or not; anything else is taken for a code."""
    return _CODES.get(name.strip().replace("（", "(").replace("）", ")"), name.strip())


def chinese_name(code: str) -> str:
    """A code without a name here names itself."""
    return _NAMES.get(code.lower()) or _NAMES.get(base_language(code), code)
