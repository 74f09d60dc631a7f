"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import PREFIX, Settings, SettingsParser, load_settings


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


def test_defaults() -> None:
    settings = load_settings()
    assert settings.checkpoints == Path("checkpoints")
    assert (settings.devices, settings.slots_per_model, settings.beam_size) == ("auto", "auto", 4)
    assert (settings.max_body_bytes, settings.max_attention_values) == (2_000_000, 262_144)


def test_environment_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_DEVICES", "cpu, cuda:0")
    monkeypatch.setenv("PARLANCE_LENGTH_PENALTY", "0.6")
    monkeypatch.setenv("PARLANCE_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("PARLANCE_BEAM_SIZE", "")
    settings = load_settings()
    assert (settings.devices, settings.length_penalty, settings.log_level) == ("cpu,cuda:0", 0.6, "debug")
    assert settings.beam_size == 4, "an empty variable is not set"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_description(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description
    assert description.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BEAM_SIZE", "many", "it should be a valid integer"),
        ("SLOTS_PER_MODEL", "0", 'it takes "auto" or a number from 1 to 4096'),
        ("SLOTS_PER_MODEL", "many", 'it takes "auto" or a number from 1 to 4096'),
        ("SLOTS_PER_MODEL", "4097", 'it takes "auto" or a number from 1 to 4096'),
        ("MAX_SAMPLES", "0", "it should be greater than or equal to 1"),
        ("REQUEST_TIMEOUT_S", "nan", "it should be less than or equal to 3600"),
        ("DEVICES", "gpu", 'it takes "auto" or a comma-separated list of "cpu" and "cuda:0", "cuda:1", …'),
        ("DEVICES", "cpu,cpu", "it names a device twice"),
        ("LOG_LEVEL", "loud", "it should be 'critical', 'error', 'warning', 'info' or 'debug'"),
        ("CPU_WORKERS", "-1", "it should be greater than or equal to 0"),
        ("CPU_WORKERS", "257", "it should be less than or equal to 256"),
        ("PORT", "0", "it should be greater than or equal to 1"),
        (
            "PORT",
            "tcp://10.0.0.7:8000",
            "it should be a valid integer; Kubernetes sets it for a service called parlance: give the pod"
            " enableServiceLinks: false",
        ),
        ("WORKER_HANG_TIMEOUT_S", "0", "it should be greater than or equal to 0.1"),
        ("CORS_ORIGINS", "example.org", 'it takes "*" or origins such as "https://example.org", without a path'),
    ],
)
def test_invalid_value_raises_one_sentence(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(SystemExit) as excinfo:
        load_settings()
    assert str(excinfo.value) == f'Parlance cannot start: {PREFIX}{name} is "{value}": {words}.'


def test_all_invalid_values_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_BEAM_SIZE", "x")
    monkeypatch.setenv("PARLANCE_CPU_THREADS", "-1")
    with pytest.raises(SystemExit, match=r"CPU_THREADS is .*; PARLANCE_BEAM_SIZE is"):
        load_settings()


def test_misspelt_variable_is_named_and_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PROT", "MODEL", "NATIVE", "SERVICE_HOST", "PORT_8000_TCP"):
        monkeypatch.setenv(PREFIX + name, "1")
    assert load_settings().port == 8000
    assert capsys.readouterr().err == (
        "PARLANCE_MODEL is no setting and is ignored; did you mean PARLANCE_MODELS?\n"
        "PARLANCE_PROT is no setting and is ignored; did you mean PARLANCE_PORT?\n"
    )


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("PARLANCE_KEY_FILE", "PARLANCE_KEYS_FILE"),
        ("PARLANCE_KEYFILE", "PARLANCE_KEYS_FILE"),
        ("PARLANCE_API_KEYS", "PARLANCE_KEYS_FILE"),
        ("PARLANCE_TOKEN", "PARLANCE_KEYS_FILE"),
        ("PARLANCE_ADMINKEY", "PARLANCE_ADMIN_KEY"),
        ("PARLANCE_KEYS_REQUIRED", "PARLANCE_KEY_REQUIRED"),
        ("PARLANCE_RATE_LIMITS", "PARLANCE_RATE_LIMIT"),
        ("PARLANCE_QUOTAS", "PARLANCE_QUOTA"),
        ("PARLANCE_RATE_LIMIT_PER_MINUTE", "PARLANCE_RATE_LIMIT"),
        ("PARLANCE_QUOTA_PER_KEY_AND_MONTH", "PARLANCE_QUOTA"),
        ("PARLANCE_KEY", "PARLANCE_KEYS_FILE"),
        ("PARLANCE_CORS", "PARLANCE_CORS_ORIGINS"),
        ("PARLANCE_MAX_BODY", "PARLANCE_MAX_BODY_BYTES"),
        ("PARLANCE_ALLOWED_HOST", "PARLANCE_ALLOWED_HOSTS"),
        ("PARLANCE_MODEL_CHANGE", "PARLANCE_MODEL_CHANGES"),
        ("PARLANCE_MAX_BODY_BYTE", "PARLANCE_MAX_BODY_BYTES"),
        ("PARLANCE_ALLOWED_ORIGINS", "PARLANCE_CORS_ORIGINS"),
        ("PARLANCE_TRUSTED_HOSTS", "PARLANCE_ALLOWED_HOSTS"),
        ("PARLANCE_THROTTLE", "PARLANCE_RATE_LIMIT"),
        ("parlance_key_file", "PARLANCE_KEYS_FILE"),
        ("PARLENCE_KEYS_FILE", "PARLANCE_KEYS_FILE"),
    ],
)
def test_misspelt_variable_that_guards_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "keys.jsonl")
    with pytest.raises(SystemExit) as excinfo:
        load_settings()
    assert str(excinfo.value) == (
        f"Parlance cannot start: {variable} is no setting, and without it this server would be less guarded than you"
        f" mean it to be; did you mean {meant}?"
    )


def test_options_are_spelled_as_other_servers_spell_them() -> None:
    settings, _ = SettingsParser("serve").settings(["-p", "81", "--model", "de-en"])
    assert (settings.port, settings.models) == (81, "de-en")


def test_slots_must_hold_one_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_SLOTS_PER_MODEL", "8")
    with pytest.raises(SystemExit, match="PARLANCE_SLOTS_PER_MODEL is 8: one translation may need 9 slots"):
        load_settings()


def test_settings_are_immutable() -> None:
    with pytest.raises(ValidationError):
        load_settings().beam_size = 2  # type: ignore[misc]


def test_several_cpu_workers_need_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_CPU_WORKERS", "2")
    for devices in ("auto", "cpu", "cuda:0,cpu"):
        monkeypatch.setenv("PARLANCE_DEVICES", devices)
        assert load_settings().cpu_workers == 2
    monkeypatch.setenv("PARLANCE_DEVICES", "cuda:0")
    with pytest.raises(SystemExit, match='PARLANCE_CPU_WORKERS is 2: PARLANCE_DEVICES names no "cpu" to split'):
        load_settings()


@pytest.mark.parametrize("key", ["too short", "a" * 15, "sixteen with spaces", "schlüssel-aus-umlauten"])
def test_invalid_admin_key_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("PARLANCE_ADMIN_KEY", key)
    with pytest.raises(SystemExit) as excinfo:
        load_settings()
    assert "PARLANCE_ADMIN_KEY cannot be used: it takes 16 or more ASCII characters without spaces" in str(
        excinfo.value
    )
    assert key not in str(excinfo.value)


def test_valid_admin_key_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_ADMIN_KEY", "a-long-secret-of-yours")
    settings = load_settings()
    assert settings.admin_key.get_secret_value() == "a-long-secret-of-yours"
    assert "long-secret" not in repr(settings) + str(settings) + str(settings.model_dump())
