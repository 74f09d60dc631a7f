"""The verbs of the phrasebook in German, English, Spanish and Chinese."""

from __future__ import annotations

from dataclasses import dataclass

PERSONS = ("1s", "2s", "3s", "1p", "3p")
_PRESENT: dict[str, tuple[str, ...]] = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}
_PRETERITE: dict[str, tuple[str, ...]] = {
    "ar": ("é", "aste", "ó", "amos", "aron"),
    "er": ("í", "iste", "ió", "imos", "ieron"),
    "ir": ("í", "iste", "ió", "imos", "ieron"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb; the finite forms stand in the order of `PERSONS`, an English form may have a particle.

    Traits: 'dative' (the German object's case), 'personal' (a Spanish living object takes 'a').
    """

    key: str  # the English infinitive
    german: tuple[str, ...]
    german_infinitive: str
    german_participle: str  # '' where the phrasebook has no past of the verb
    english: tuple[str, str, str]  # infinitive, third person, past (or '')
    english_particle: str
    spanish: tuple[str, ...]
    spanish_past: tuple[str, ...]
    spanish_infinitive: str
    chinese: str
    traits: frozenset[str]


# German 1s 2s 3s infinitive [participle] | English infinitive 3s [past] | Spanish infinitive
# [present where irregular] [/ preterite where irregular] | Chinese | traits
_TABLE = """
sehe siehst sieht sehen gesehen | see sees saw | ver veo ves ve vemos ven / vi viste vio vimos vieron | 看见 | personal
liebe liebst liebt lieben | love loves | amar | 爱 | personal
kenne kennst kennt kennen | know knows | conocer conozco conoces conoce conocemos conocen | 认识 | personal
besuche besuchst besucht besuchen besucht | visit visits visited | visitar | 看望 | personal
helfe hilfst hilft helfen geholfen | help helps helped | ayudar | 帮助 | personal dative
jage jagst jagt jagen | chase chases | perseguir persigo persigues persigue perseguimos persiguen | 追逐 | personal
suche suchst sucht suchen | look looks - for | buscar | 寻找 | personal
finde findest findet finden gefunden | find finds found | encontrar encuentro encuentras encuentra encontramos \
encuentran | 找到 | personal
kaufe kaufst kauft kaufen gekauft | buy buys bought | comprar | 买 |
verkaufe verkaufst verkauft verkaufen verkauft | sell sells sold | vender | 卖 |
esse isst isst essen gegessen | eat eats ate | comer | 吃 |
trinke trinkst trinkt trinken getrunken | drink drinks drank | beber | 喝 |
lese liest liest lesen | read reads | leer | 读 |
schreibe schreibst schreibt schreiben geschrieben | write writes wrote | escribir | 写 |
wasche wäschst wäscht waschen | wash washes | lavar | 洗 |
öffne öffnest öffnet öffnen geöffnet | open opens opened | abrir | 打开 |
habe hast hat haben | have has | tener tengo tienes tiene tenemos tienen | 有 |
brauche brauchst braucht brauchen | need needs | necesitar | 需要 |
möchte möchtest möchte möchten | want wants | querer quiero quieres quiere queremos quieren | 想要 |
spreche sprichst spricht sprechen | speak speaks | hablar | 说 |
lerne lernst lernt lernen | learn learns | aprender | 学习 |
schlafe schläfst schläft schlafen | sleep sleeps | dormir duermo duermes duerme dormimos duermen | 睡觉 |
arbeite arbeitest arbeitet arbeiten | work works | trabajar | 工作 |
singe singst singt singen | sing sings | cantar | 唱歌 |
spiele spielst spielt spielen | play plays | jugar juego juegas juega jugamos juegan | 玩 |
koche kochst kocht kochen | cook cooks | cocinar | 做饭 |
fahre fährst fährt fahren | go goes | ir voy vas va vamos van | 去 |
kann kannst kann können | can can | poder puedo puedes puede podemos pueden | 能 |
muss musst muss müssen | must must | tener tengo tienes tiene tenemos tienen | 必须 |
"""


def _conjugated(infinitive: str, endings: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    stem, kind = infinitive[:-2], infinitive[-2:].replace("í", "i")
    return tuple(stem + ending for ending in endings[kind])


def _verb(row: str) -> Verb:
    german, english, spanish, chinese, traits = (cell.split() for cell in row.split("|"))
    first, second, third, infinitive, *participle = german
    regular = " ".join(spanish).partition(" / ")
    present, past = regular[0].split(), tuple(regular[2].split())
    return Verb(
        key=english[0],
        german=(first, second, third, infinitive, infinitive),
        german_infinitive=infinitive,
        german_participle="".join(participle),
        english=(english[0], english[1], "".join(english[2:3]).replace("-", "")),
        english_particle="".join(english[3:]),
        spanish=tuple(present[1:]) or _conjugated(present[0], _PRESENT),
        spanish_past=past or _conjugated(present[0], _PRETERITE),
        spanish_infinitive=present[0],
        chinese=chinese[0],
        traits=frozenset(traits),
    )


VERBS: dict[str, Verb] = {verb.key: verb for verb in map(_verb, _TABLE.strip().splitlines())}
