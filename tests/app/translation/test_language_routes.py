"""Which pairs two models translate in turn, and through which language."""

from __future__ import annotations

import pytest

from app.translation.pivot import LanguageRoutes
from tests.app.api.fake_engine import FakeEngine, translator


def routes(*pairs: str, pivoting: bool = True) -> LanguageRoutes:
    return LanguageRoutes(FakeEngine([translator(*pair.split(">")) for pair in pairs]), pivoting=pivoting)


@pytest.mark.parametrize(
    ("pairs", "wanted", "expected"),
    [
        ("de>en en>fr", "de>fr", "de>en en>fr"),
        ("de>en en>fr de>fr", "de>fr", "de>fr"),
        ("de>nl nl>fr de>en en>fr", "de>fr", "de>en en>fr"),
        ("de>nl nl>fr de>en", "de>fr", "de>nl nl>fr"),
        ("de>en-GB en>fr", "de>fr", "de>en-GB en>fr"),
        ("de>zh-Hans zh>fr", "de>fr", "de>zh-Hans zh>fr"),
        ("de>zh-Hant zh-Hans>fr", "de>fr", ""),  # a script is not another
        ("de>en en>fr fr>ja", "de>ja", ""),  # three models
        ("de>en en>de", "de>de", ""),
        ("zh-Hans>en en>zh-Hant", "zh-Hans>zh-Hant", ""),
        ("de>pt pt>pt-BR", "de>pt-BR", ""),
        ("de>en fr>en", "de>fr", ""),
    ],
)
def test_the_way_from_one_language_to_another(pairs: str, wanted: str, expected: str) -> None:
    source, target = wanted.split(">")
    legs = routes(*pairs.split()).legs(source, target)
    assert " ".join(">".join(leg) for leg in legs) == expected
    direct = routes(*pairs.split(), pivoting=False).legs(source, target)
    assert direct == (legs if len(legs) == 1 else ())


def test_reachable_languages_come_after_those_of_one_model() -> None:
    table = routes("de>en", "en>fr", "en>es", "es>en", "de>es")
    assert table.targets("de") == ["en", "es", "fr"]
    assert table.targets("es") == ["en", "fr"]
    assert table.sources("fr") == ["en", "de", "es"]
    assert table.targets("ja") == table.sources("de") == []
    assert routes("de>en", "en>fr", pivoting=False).targets("de") == ["en"]
    assert routes("de>en", "en>fr", pivoting=False).sources("fr") == ["en"]


def test_routes_follow_the_loaded_models() -> None:
    engine = FakeEngine([translator("de", "en")])
    table = LanguageRoutes(engine)
    assert table.legs("de", "fr") == ()
    engine.loaded = [*engine.loaded, translator("en", "fr")]
    assert table.legs("de", "fr") == (("de", "en"), ("en", "fr"))
    engine.loaded = engine.loaded[1:]
    assert table.legs("de", "fr") == ()
