"""The words of the phrasebook in German, English, Spanish and Chinese: nouns, names, pronouns, adjectives, verbs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun or a name; names, cities and mass nouns ('mass' in kinds) are used in the singular only."""

    key: str  # the English singular
    gender: str  # German: m, f, n
    german: tuple[str, str]  # singular, plural
    english: tuple[str, str]
    spanish_gender: str  # m, f
    spanish: tuple[str, str]
    measure: str
    chinese: str
    kinds: frozenset[str]
    adjectives: tuple[str, ...]  # those that sensibly describe it

    @property
    def person(self) -> str:
        """One thing that is spoken of."""
        return "3s"


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal subject; Spanish leaves out the first person, and the second in a question."""

    key: str  # the English word
    person: str  # 1s, 2s, 3s, 1p
    gender: str  # m, f, or '' where the pronoun does not tell
    german: str
    spanish: str
    chinese: str


# German gender, singular, plural | English | Spanish | Chinese measure word, noun | kinds | adjectives
_NOUN_TABLE = """
m mann männer | man men | m hombre hombres | 个 男人 | person | young clever
f frau frauen | woman women | f mujer mujeres | 个 女人 | person | young clever beautiful
n kind kinder | child children | m niño niños | 个 孩子 | person | small clever
m junge jungen | boy boys | m chico chicos | 个 男孩 | person | small clever
n mädchen mädchen | girl girls | f chica chicas | 个 女孩 | person | small clever
m könig könige | king kings | m rey reyes | 位 国王 | person | young clever
f königin königinnen | queen queens | f reina reinas | 位 女王 | person | young clever beautiful
m vater väter | father fathers | m padre padres | 个 爸爸 | kin |
f mutter mütter | mother mothers | f madre madres | 个 妈妈 | kin |
m sohn söhne | son sons | m hijo hijos | 个 儿子 | kin heir | small clever
f tochter töchter | daughter daughters | f hija hijas | 个 女儿 | kin heir | small clever
m hund hunde | dog dogs | m perro perros | 只 狗 | animal pet | big small black white clever
f katze katzen | cat cats | m gato gatos | 只 猫 | animal pet | big small black white beautiful
f maus mäuse | mouse mice | m ratón ratones | 只 老鼠 | animal pet | small black white
m vogel vögel | bird birds | m pájaro pájaros | 只 鸟 | animal | big small black white beautiful
n pferd pferde | horse horses | m caballo caballos | 匹 马 | animal | big small black white beautiful
m apfel äpfel | apple apples | f manzana manzanas | 个 苹果 | fruit food | big small red fresh
f orange orangen | orange oranges | f naranja naranjas | 个 橙子 | fruit food | big small fresh
f tomate tomaten | tomato tomatoes | m tomate tomates | 个 西红柿 | fruit food | big small red fresh
n ei eier | egg eggs | m huevo huevos | 个 鸡蛋 | food | big small fresh
m kuchen kuchen | cake cakes | m pastel pasteles | 个 蛋糕 | food | big small fresh
f kartoffel kartoffeln | potato potatoes | f patata patatas | 个 土豆 | food | big small
n brot | bread | m pan | 块 面包 | meal mass | fresh
m käse | cheese | m queso | 块 奶酪 | meal mass | fresh
n fleisch | meat | f carne | 块 肉 | meal mass | fresh
m fisch | fish | m pescado | 条 鱼 | meal mass | fresh
m reis | rice | m arroz | 碗 米饭 | meal mass |
n bier | beer | f cerveza | 杯 啤酒 | drink mass glass | cold
m kaffee | coffee | m café | 杯 咖啡 | drink mass glass | hot cold
m tee | tea | m té | 杯 茶 | drink mass glass | hot cold
m saft | juice | m zumo | 杯 果汁 | drink mass glass | cold fresh
m wein | wine | m vino | 杯 葡萄酒 | drink mass glass | cold
f milch | milk | f leche | 杯 牛奶 | drink mass | hot cold fresh
n wasser | water | f agua | 杯 水 | drink mass | hot cold
n buch bücher | book books | m libro libros | 本 书 | thing small read | new old expensive
f zeitung zeitungen | newspaper newspapers | m periódico periódicos | 份 报纸 | small read | new old
m brief briefe | letter letters | f carta cartas | 封 信 | small read |
n auto autos | car cars | m coche coches | 辆 汽车 | thing vehicle wash | red black new expensive
n fahrrad fahrräder | bicycle bicycles | f bicicleta bicicletas | 辆 自行车 | thing vehicle wash | red white new old
n haus häuser | house houses | f casa casas | 栋 房子 | thing | big small old beautiful white
m tisch tische | table tables | f mesa mesas | 张 桌子 | thing seat | black white old expensive
m stuhl stühle | chair chairs | f silla sillas | 把 椅子 | thing seat | red white expensive beautiful old
f lampe lampen | lamp lamps | f lámpara lámparas | 盏 灯 | thing small | big small red new expensive
m schlüssel schlüssel | key keys | f llave llaves | 把 钥匙 | thing small | small new old
f tasche taschen | bag bags | m bolso bolsos | 个 包 | thing small wash | big small red black new expensive
m hut hüte | hat hats | m sombrero sombreros | 顶 帽子 | thing small | red black new expensive beautiful
n hemd hemden | shirt shirts | f camisa camisas | 件 衬衫 | thing small wash | red white black beautiful
f blume blumen | flower flowers | f flor flores | 朵 花 | thing small | red white beautiful
f tür türen | door doors | f puerta puertas | 扇 门 | opening | big small white
n fenster fenster | window windows | f ventana ventanas | 扇 窗户 | opening | big small
f küche küchen | kitchen kitchens | f cocina cocinas | 个 厨房 | room |
m garten gärten | garden gardens | m jardín jardines | 个 花园 | room |
m park parks | park parks | m parque parques | 个 公园 | room |
f schule schulen | school schools | f escuela escuelas | 所 学校 | room |
n büro büros | office offices | f oficina oficinas | 个 办公室 | room |
n krankenhaus krankenhäuser | hospital hospitals | m hospital hospitales | 家 医院 | room |
n restaurant restaurants | restaurant restaurants | m restaurante restaurantes | 家 餐厅 | room |
m supermarkt supermärkte | supermarket supermarkets | m supermercado supermercados | 家 超市 | room |
m bahnhof bahnhöfe | station stations | f estación estaciones | 个 车站 | room |
n bett betten | bed beds | f cama camas | 张 床 | landmark |
m baum bäume | tree trees | m árbol árboles | 棵 树 | landmark |
n deutsch | german | m alemán | 种 德语 | language mass |
n englisch | english | m inglés | 种 英语 | language mass |
n spanisch | spanish | m español | 种 西班牙语 | language mass |
n chinesisch | chinese | m chino | 种 中文 | language mass |
m Tom | Tom | m Tom | 个 汤姆 | name |
m Jerry | Jerry | m Jerry | 个 杰瑞 | name |
m Peter | Peter | m Peter | 个 彼得 | name |
f Anna | Anna | f Anna | 个 安娜 | name |
f Lisa | Lisa | f Lisa | 个 丽莎 | name |
f Laura | Laura | f Laura | 个 劳拉 | name |
n Berlin | Berlin | m Berlín | 个 柏林 | city |
n Paris | Paris | m París | 个 巴黎 | city |
n London | London | m Londres | 个 伦敦 | city |
n Madrid | Madrid | m Madrid | 个 马德里 | city |
n Rom | Rome | f Roma | 个 罗马 | city |
n Peking | Beijing | m Pekín | 个 北京 | city |
n Lissabon | Lisbon | f Lisboa | 个 里斯本 | city |
n Wien | Vienna | f Viena | 个 维也纳 | city |
f welt | world | m mundo | 个 世界 | world |
"""


def _noun(row: str) -> Noun:
    german, english, spanish, chinese, kinds, adjectives = (cell.split() for cell in row.split("|"))
    return Noun(
        key=english[0],
        gender=german[0],
        german=(german[1], german[-1]),
        english=(english[0], english[-1]),
        spanish_gender=spanish[0],
        spanish=(spanish[1], spanish[-1]),
        measure=chinese[0],
        chinese=chinese[1],
        kinds=frozenset(kinds),
        adjectives=tuple(adjectives),
    )


NOUNS: dict[str, Noun] = {noun.key: noun for noun in map(_noun, _NOUN_TABLE.strip().splitlines())}

PRONOUNS: dict[str, Pronoun] = {
    pronoun.key: pronoun
    for pronoun in (
        Pronoun("i", "1s", "", "ich", "", "我"),
        Pronoun("you", "2s", "", "du", "tú", "你"),
        Pronoun("he", "3s", "m", "er", "él", "他"),
        Pronoun("she", "3s", "f", "sie", "ella", "她"),
        Pronoun("we", "1p", "", "wir", "", "我们"),
    )
}


@cache
def nouns_of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of a kind, in the order of the table; a key names the one noun itself."""
    if kind in NOUNS:
        return (NOUNS[kind],)
    return tuple(noun for noun in NOUNS.values() if kind in noun.kinds)


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
_ADJECTIVE_TABLE = """
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
    adjective.key: adjective for adjective in map(_adjective, _ADJECTIVE_TABLE.strip().splitlines())
}


PERSONS = ("1s", "2s", "3s", "1p", "3p")
_PRESENT_ENDINGS: dict[str, tuple[str, ...]] = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}
_PRETERITE_ENDINGS: dict[str, tuple[str, ...]] = {
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
_VERB_TABLE = """
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
        spanish=tuple(present[1:]) or _conjugated(present[0], _PRESENT_ENDINGS),
        spanish_past=past or _conjugated(present[0], _PRETERITE_ENDINGS),
        spanish_infinitive=present[0],
        chinese=chinese[0],
        traits=frozenset(traits),
    )


VERBS: dict[str, Verb] = {verb.key: verb for verb in map(_verb, _VERB_TABLE.strip().splitlines())}
