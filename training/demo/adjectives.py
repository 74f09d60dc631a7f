"""The adjectives of the phrasebook in German, English, Spanish and Chinese."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """A quality; its Chinese form before a noun ends in 的, or it is of one syllable."""

    key: str  # the English word
    german: str
    spanish: str  # masculine singular
    copula: str  # Spanish: ser for what something is, estar for the state it is in
    chinese: str
    chinese_predicate: str  # after 很 or 是: 漂亮 without 的, but 红色的 with it

    @property
    def german_stem(self) -> str:
        """What the endings are added to: 'teuer' loses an e."""
        return "teur" if self.german == "teuer" else self.german

    @property
    def is_colour(self) -> bool:
        """A colour is predicated with 是 in Chinese, any other quality with 很."""
        return self.chinese.endswith("色的")

    def in_spanish(self, gender: str, plural: bool) -> str:
        """The form that agrees with the noun."""
        form = self.spanish
        if gender == "f" and form.endswith("o"):
            form = form[:-1] + "a"
        if not plural:
            return form
        return {"joven": "jóvenes"}.get(form, form + ("s" if form[-1] in "aeo" else "es"))


# English | German | Spanish with its copula | Chinese before a noun, and as a predicate where it is another word
_TABLE = """
big | groß | grande ser | 大
small | klein | pequeño ser | 小
red | rot | rojo ser | 红色的
black | schwarz | negro ser | 黑色的
white | weiß | blanco ser | 白色的
new | neu | nuevo ser | 新
old | alt | viejo ser | 旧
expensive | teuer | caro ser | 昂贵的 贵
beautiful | schön | hermoso ser | 漂亮的
young | jung | joven ser | 年轻的
clever | klug | inteligente ser | 聪明的
fresh | frisch | fresco estar | 新鲜的
hot | heiß | caliente estar | 热
cold | kalt | frío estar | 冰
tired | müde | cansado estar | 累
sad | traurig | triste estar | 难过的
happy | glücklich | contento estar | 高兴的
"""


def _adjective(row: str) -> Adjective:
    english, german, spanish, chinese = (cell.split() for cell in row.split("|"))
    predicate = chinese[-1] if chinese[-1].endswith("色的") else chinese[-1].removesuffix("的")
    return Adjective(english[0], german[0], spanish[0], spanish[1], chinese[0], predicate)


ADJECTIVES: dict[str, Adjective] = {
    adjective.key: adjective for adjective in map(_adjective, _TABLE.strip().splitlines())
}
