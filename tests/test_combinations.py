from __future__ import annotations

import itertools

import pytest

from tests.combinations import ALL_VALUES, covering, slow_but

pytest_plugins = ["pytester"]


def test_every_value_of_a_product_is_covered() -> None:
    axes = {"library": ["vnni", "avx2"], "size": [1, 2.0, 3], "shape": [[1], [2], ([3], 3), {4}]}
    combinations = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    chosen = covering(combinations)
    assert len(chosen) == 4
    for name, values in axes.items():
        assert all(any(combinations[place][name] is value for place in chosen) for value in values)


def test_every_pair_of_values_is_covered() -> None:
    names = "abcd"
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(range(3), repeat=4)]
    chosen = [combinations[place] for place in covering(combinations, together=2)]
    assert 9 <= len(chosen) <= 15 < 3**4
    for first, second in itertools.combinations(names, 2):
        assert {(each[first], each[second]) for each in chosen} == {*itertools.product(range(3), repeat=2)}


def test_equal_values_of_two_types_are_two() -> None:
    assert covering([{"value": 1}, {"value": True}, {"value": 1.0}, {"value": 1}]) == [0, 1, 2]


def test_the_others_are_slow(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.combinations import mark_others_slow as pytest_collection_modifyitems")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.every_value
        @pytest.mark.parametrize("a", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
        @pytest.mark.parametrize("b", [[1], [2]])
        def test_of_both(a, b):
            pass

        @pytest.mark.parametrize("a", [1, 2])
        @pytest.mark.parametrize("b", [1, 2])
        def test_of_all(a, b):
            pass
    """)
    pytester.makeini("[pytest]\nmarkers = \n    slow\n    every_value\n    other_values\n")
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-m", "not slow").assert_outcomes(passed=2 + 4, deselected=4)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-m", "slow").assert_outcomes(passed=4, deselected=6)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-m", ALL_VALUES).assert_outcomes(passed=8, deselected=2)


def test_a_quick_value_is_one_of_the_values() -> None:
    assert [bool(each.marks) for each in slow_but([1, 2, [3]], 2, [3])] == [True, False, False]
    with pytest.raises(ValueError, match="not among the values"):
        slow_but([1, 2], 3)
