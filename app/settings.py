"""Every setting of the service, its unit in its name, read once from the environment (prefix PARLANCE_).
`load_settings` and `SettingsParser` are for
`app.main` and the programs that start it; nothing below reads settings."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import ipaddress
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict

from app.access.rate_limits import parse_quotas, parse_rates
from models.decoding.options import WIDEST_BEAM
from parlance import __version__

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PREFIX = "PARLANCE_"
_READ_BY_BACKENDS = ("NATIVE", "SHORTLIST")  # for diagnosis: `models.backends.native` reads them
_SHORTCUTS = {"port": "p", "models": "model"}  # as other servers spell these options
# Without one of these the server is more open than its operator believes; so is it without a limit (MAX_…).
_GUARDS = (
    "ADMIN_KEY", "ALLOWED_HOSTS", "CORS_ORIGINS", "KEYS_FILE", "KEY_REQUIRED", "MODEL_CHANGES", "QUOTA", "RATE_LIMIT",
    "REDIS_URL", "TRUSTED_PROXIES",
)  # fmt: skip
_GUARDING_WORDS = {  # between the underscores of a name
    **dict.fromkeys(
        ("KEY", "KEYS", "KEYFILE", "APIKEY", "APIKEYS", "TOKEN", "TOKENS", "PASSWORD", "SECRET", "AUTH"), "KEYS_FILE"
    ),
    **dict.fromkeys(("ORIGIN", "ORIGINS"), "CORS_ORIGINS"),
    **dict.fromkeys(("LIMIT", "LIMITS", "THROTTLE"), "RATE_LIMIT"),
    "HOSTS": "ALLOWED_HOSTS",
    "PROXIES": "TRUSTED_PROXIES",
}
Text = TypeVar("Text", str, SecretStr)
Section = TypeVar("Section", bound="DataclassInstance")

# Of a page, or of an extension: a browser makes its origin of the extension's id.
_ORIGIN = re.compile(r"\*|(https?|(chrome|moz|safari-web|edge)-extension|extension)://[^/\s?#@]+")


def _check_devices(value: str) -> str:
    names = [name.strip() for name in value.split(",")]
    if names != ["auto"]:
        for name in names:
            if not re.fullmatch(r"cpu|cuda:\d{1,3}", name):
                raise ValueError('it takes "auto" or a comma-separated list of "cpu" and "cuda:0", "cuda:1", …')
        if len(set(names)) < len(names):
            raise ValueError("it names a device twice")
    return ",".join(names)


def _matching(pattern: str, takes: str) -> AfterValidator:
    """Refuses a text, or a secret text, that is neither empty nor of the pattern."""

    def check(value: Text) -> Text:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if text and not re.fullmatch(pattern, text, re.DOTALL):
            raise ValueError(f"it takes {takes}")
        return value

    return AfterValidator(check)


def _parsed_by(parse: Callable[[str], object]) -> AfterValidator:
    """Refuses a text that `parse` raises ValueError for."""

    def check(value: str) -> str:
        parse(value)
        return value

    return AfterValidator(check)


def _list_of(parse: Callable[[str], object], takes: str) -> AfterValidator:
    """A list with commas between its items. parse: of a wrong item it is None, or raises ValueError."""

    def check(value: str) -> str:
        items = [item.strip() for item in value.split(",") if item.strip()]
        try:
            if not any(parse(item) is None for item in items):
                return ",".join(items)
        except ValueError:
            pass
        raise ValueError(f"it takes {takes}")

    return AfterValidator(check)


def _parse_slots(value: object) -> object:
    if value == "auto":
        return value
    if str(value).isdecimal() and 1 <= int(str(value)[:5]) <= 4096:
        return int(str(value))
    raise ValueError('it takes "auto" or a number from 1 to 4096')


def _check_folder(path: Path) -> Path:
    if path.is_file():
        raise ValueError("it is a file; name a folder")
    return path


Slots = Annotated[int | Literal["auto"], BeforeValidator(_parse_slots)]
Devices = Annotated[str, AfterValidator(_check_devices)]
SecretKey = Annotated[SecretStr, _matching("[!-~]{16,}", "16 or more ASCII characters without spaces")]
RateLimits = Annotated[str, _parsed_by(parse_rates)]
Quotas = Annotated[str, _parsed_by(parse_quotas)]
RedisUrl = Annotated[SecretStr, _matching(r"(rediss?|unix)://\S.*", "an address such as redis://redis:6379/0")]
WebAddress = Annotated[
    str,
    _matching(r"https?://[^\s?#@]+", 'an address such as "https://example.org", without a query'),
    AfterValidator(lambda value: value.rstrip("/")),
]
# uvicorn takes a wrong address for a host name, which no client has, and says nothing
Networks = Annotated[str, _list_of(ipaddress.ip_network, "addresses and networks such as 127.0.0.1,10.0.0.0/8")]
Hosts = Annotated[
    str, _list_of(re.compile(r"\*|[A-Za-z0-9_.-]+").fullmatch, '"auto", "*" or names such as translate.example.org')
]
Origins = Annotated[str, _list_of(_ORIGIN.fullmatch, '"*" or origins such as "https://example.org", without a path')]


class Settings(BaseSettings):
    """Read from PARLANCE_* environment variables; an empty variable counts as not set."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every IPv4 one."""
    port: int = Field(default=8000, ge=1, le=65_535)
    """Port to listen on."""
    checkpoints: Annotated[Path, AfterValidator(_check_folder)] = Path("checkpoints")
    """Folder whose sub-folders are the checkpoints to load."""
    models: str = ""
    """Comma-separated models to load, of which the first answers first: names of folders, or of models on the Hugging
    Face Hub (Helsinki-NLP/opus-mt-de-en, or de-en), which `parlance serve` fetches. Empty, or if none is there: all."""
    devices: Devices = "auto"
    """Where models run: "auto" (every CUDA device, or else the CPU), or a comma-separated list such as "cpu" or
    "cuda:0,cuda:1"."""
    cpu_threads: int = Field(default=0, ge=0, le=1024)
    """Threads of each CPU device process; 0 shares out all cores. An inspection on an idle machine takes all. Native
    steps of small models, and of lyricists, use one."""
    cpu_workers: int = Field(default=0, ge=0, le=256)
    """Processes that the device cpu is split into, each with a copy of every model; 0 makes one for each core, at most
    4."""
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = "auto"
    """Number format that models compute in: "auto" measures which is fastest when a model loads; int8 is for CPUs, fp16
    for GPUs; also fp32, bf16."""
    slots_per_model: Slots = "auto"
    """Sequences that one model works on at once on one device; "auto": 64 on a CPU, and on a GPU as many as its free
    memory holds, at most 512."""
    prefill_tokens: int = Field(default=2048, ge=16)
    """Tokens, padding included, that one model reads between two steps; fewer where others wait and these would take
    longer than 50 ms."""
    max_inflight_requests: int = Field(default=1024, ge=1)
    """Requests waiting or in work; beyond that the answer is 429. One client alone gets three quarters of them."""
    max_queued_source_tokens: int = Field(default=65_536, ge=1)
    """Tokens to read of all requests waiting or in work; beyond that the answer is 429."""
    max_queue_age_s: float = Field(default=30, gt=0, le=3600)
    """Seconds that a request may wait for a slot, expected or measured; beyond that it is 429."""
    request_timeout_s: float = Field(default=60, gt=0, le=3600)
    """Seconds until a request without an answer is given up (504), a stream that nobody reads, or a body of which
    nothing comes (408)."""
    stream_interval_ms: float = Field(default=20, ge=0, le=10_000)
    """Milliseconds in which a stream's tokens are collected, except the first and last; 0: each token."""
    max_body_bytes: int = Field(default=2_000_000, ge=1024)
    """Largest request body in bytes; beyond that the answer is 413."""
    min_body_bytes_per_s: int = Field(default=1000, ge=1)
    """Bytes of a request's body that have to come in each second, on average; a body that comes more slowly is 408."""
    body_timeout_s: float = Field(default=20, gt=0, le=3600)
    """Seconds in which the bytes of a body are not counted against PARLANCE_MIN_BODY_BYTES_PER_S."""
    max_uploaded_bytes: int = Field(default=256_000_000, ge=1024)
    """Bytes of all bodies that requests hold at once, without the first 65,536 of each; one client gets half. Beyond
    that it is 429."""
    max_connections: int = Field(default=2048, ge=1)
    """Connections of all clients. Beyond that the one that has waited longest without a whole request is closed for a
    new one; where all have requests in work, it is 503."""
    max_connections_per_client: int = Field(default=512, ge=1)
    """The same of one address (IPv6: of a /64); trusted proxies have no such limit."""
    max_url_bytes: int = Field(default=16_384, ge=256)
    """Bytes of a request's address, query included; beyond that it is 414."""
    max_header_bytes: int = Field(default=32_768, ge=256)
    """Bytes of a request's headers and trailers; beyond that it is 431."""
    max_headers: int = Field(default=100, ge=8)
    """Headers and trailers of a request; beyond that it is 431."""
    header_timeout_s: float = Field(default=20, gt=0, le=3600)
    """Seconds from a connection's start, or a request's first byte, to the end of its headers; beyond that it is
    408."""
    keep_alive_timeout_s: float = Field(default=20, gt=0, le=3600)
    """Seconds that a connection stays open between two requests: longer than clients wait between two looks at a
    document (DeepL's: 5); behind a proxy, set more than the proxy's."""
    linger_s: float = Field(default=5, gt=0, le=60)
    """Seconds for which a connection is read on after an early answer, such as 413, so that the client can read that
    once it has written all of its body."""
    max_batch_texts: int = Field(default=512, ge=1)
    """Texts in one POST /translate."""
    max_text_characters: int = Field(default=100_000, ge=1)
    """Characters (code points) of one text or prompt."""
    max_alternatives: int = Field(default=8, ge=0)
    """Alternatives per text in POST /translate."""
    max_new_tokens: int = Field(default=1024, ge=1)
    """Tokens that may be asked for in one text: a continuation, or the translation of a sentence."""
    max_samples: int = Field(default=16, ge=1)
    """Continuations (n) in one POST /generate."""
    max_attention_values: int = Field(default=262_144, ge=1)
    """Numbers (attention weights, gate values, log-probabilities) in one answer of POST /attention, /gates or
    /v1/completions."""
    beam_size: int = Field(default=4, ge=1, le=WIDEST_BEAM)
    """Hypotheses that the beam search of a translator keeps; 1 is greedy."""
    length_penalty: float = Field(default=1.0, ge=0, le=5)
    """Exponent of the length by which the beam search divides scores."""
    cache_mb: int = Field(default=0, ge=0, le=1_000_000)
    """Megabytes of memory for translations of sentences that were asked for before; 0 keeps none."""
    pivot: bool = True
    """Translate pairs without a model through a third language, English first, with two models."""
    log_level: Literal["critical", "error", "warning", "info", "debug"] = "info"
    """Least severe level that is logged."""
    log_format: Literal["text", "json"] = "text"
    """How log lines are written: for people, or each as a JSON object."""
    request_log: bool = True
    """Log each request, except answered probes (/health, /metrics): method, route, status, milliseconds, id, the key's
    name; never texts, keys or addresses."""
    cors_origins: Origins = ""
    """Comma-separated origins whose pages may call this service, such as "https://example.org" or
    "chrome-extension://ID", or "*" for all; empty allows none."""
    allowed_hosts: Hosts = "auto"
    """Comma-separated names of this server beside addresses, names without a dot, local ones (localhost, .local,
    .internal, .home.arpa) and that of PARLANCE_PUBLIC_URL: a request without a required key that calls it by another is
    403, since a page may have made that name lead here. "auto": where a connection comes from this machine and
    PARLANCE_TRUSTED_PROXIES names nobody; "*": any name."""
    shutdown_delay_s: float = Field(default=5, ge=0, le=3600)
    """Seconds from SIGTERM, when readiness ends, to the drain, in which everything else is answered as before: longer
    than a load balancer takes to notice; 0 where there is none. After Ctrl-C it is 0."""
    drain_timeout_s: float = Field(default=20, ge=0, le=3600)
    """Seconds that running requests have to finish once the drain begins."""
    worker_start_timeout_s: float = Field(default=60, gt=0, le=3600)
    """Seconds a device process has to start, and to load each model, before it is restarted."""
    worker_hang_timeout_s: float = Field(default=10, ge=0.1, le=3600)
    """Seconds without a sign of life after which a device process is ended and started again."""
    data: Path = Path("data")
    """Folder, made where it is missing, for what callers leave: glossaries and files."""
    max_file_bytes: int = Field(default=10_000_000, ge=1024)
    """Largest form with a file to translate, in bytes; beyond that it is 413."""
    max_kept_files_bytes: int = Field(default=1_000_000_000, ge=1024)
    """Bytes of all translated files kept; beyond that it is 429."""
    file_retention_s: float = Field(default=1800, gt=0, le=604_800)
    """Seconds for which a translated file can be fetched."""
    public_url: WebAddress = ""
    """How clients reach this server, as https://example.org/mt; empty: as they called it where that is localhost, a
    name without dots or a private address, and else the addresses of files are relative."""
    admin_key: SecretKey = SecretStr("")
    """Key of the endpoints that load, reload and unload models; empty switches them off."""
    model_changes: bool = True
    """Whether those endpoints change models at all: false where several servers are to have the same ones, as replicas
    under Ray Serve have."""
    keys_file: str = ""
    """File of API keys, made by `parlance keys add`; empty: everybody may use the service."""
    key_required: bool = True
    """With a keys file, refuse requests without a key; a wrong key is always refused."""
    rate_limit: RateLimits = ""
    """Requests of each key and, without one, of each address, such as 60/minute;1000/hour; each text of a batch counts.
    Empty: no limit."""
    quota: Quotas = ""
    """Characters of each key, such as 500000/month;50000/day, in UTC; empty: no limit."""
    redis_url: RedisUrl = SecretStr("")
    """Redis in which servers share limits and quotas, such as redis://redis:6379/0; empty: each server counts for
    itself until it ends."""
    trusted_proxies: Networks = ""
    """Comma-separated addresses and networks of proxies whose X-Forwarded-For is believed, such as
    127.0.0.1,10.0.0.0/8; empty: nobody's."""
    otlp_endpoint: WebAddress = ""
    """OpenTelemetry collector that gets a span of each request over OTLP/HTTP, such as http://localhost:4318/v1/traces;
    needs the extra `otel`. Empty: none."""

    def section(self, kind: type[Section]) -> Section:
        """The settings that one part of the service takes: `kind` is a dataclass whose fields have their names."""
        return kind(**{field.name: getattr(self, field.name) for field in dataclasses.fields(kind)})

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _workers_need_a_cpu(self) -> Self:
        if self.devices != "auto" and "cpu" not in self.devices.split(",") and self.cpu_workers > 1:
            raise ValueError(f'{PREFIX}CPU_WORKERS is {self.cpu_workers}: {PREFIX}DEVICES names no "cpu" to split')
        return self

    @model_validator(mode="after")
    def _room_for_one_upload(self) -> Self:
        for name in ("max_body_bytes", "max_file_bytes"):
            if self.max_uploaded_bytes < getattr(self, name):
                raise ValueError(
                    f"{PREFIX}MAX_UPLOADED_BYTES is {self.max_uploaded_bytes}: {PREFIX}{name.upper()} is larger,"
                    f" {getattr(self, name)}"
                )
        return self

    @model_validator(mode="after")
    def _slots_for_one_request(self) -> Self:
        """One translation holds a slot for each hypothesis: with fewer slots it could never start."""
        needed = max(self.beam_size, self.max_alternatives + 1)
        if self.slots_per_model != "auto" and self.slots_per_model < needed:
            raise ValueError(
                f"{PREFIX}SLOTS_PER_MODEL is {self.slots_per_model}: one translation may need {needed} slots"
                f" (the larger of {PREFIX}BEAM_SIZE and {PREFIX}MAX_ALTERNATIVES + 1)"
            )
        return self


class SettingsParser(argparse.ArgumentParser):
    """The command line of the server, with an option for each setting. A mistake ends the process with one sentence and
    status 2.

    program: how the user started it, such as "python -m app"."""

    def __init__(self, program: str, usage: str = "%(prog)s [options]") -> None:
        super().__init__(
            prog=program,
            usage=usage,
            description="Serves the checkpoints of a folder over HTTP: a page at /, the API's documentation at /docs.",
            epilog=f"Each option is an environment variable too: {PREFIX}PORT is --port. The option wins. Give secrets"
            f" ({PREFIX}ADMIN_KEY, {PREFIX}REDIS_URL) in the environment: command lines are no secret.",
            allow_abbrev=False,
        )
        self.add_argument("-V", "--version", action="version", version=f"parlance {__version__}")
        self._source = CliSettingsSource[argparse.ArgumentParser](
            Settings, root_parser=self, cli_kebab_case=True, cli_implicit_flags=True, cli_hide_none_type=True,
            cli_shortcuts=_SHORTCUTS,
        )  # fmt: skip

    def settings(self, arguments: Sequence[str] | None) -> tuple[Settings, Namespace]:
        """Settings from the arguments (default: of the process) and the environment; and all that was parsed, with the
        caller's own additions to the parser."""
        given = self.parse_args(arguments)
        options = {name for name in Settings.model_fields if getattr(given, name, None) is not None}
        return _checked_settings(options, _cli_settings_source=self._source(parsed_args=given)), given

    def error(self, message: str) -> NoReturn:
        unknown = re.search("unrecognized arguments: (--[^ =]+)", message)
        nearest = get_close_matches(unknown[1], self._option_string_actions, 1, 0.7) if unknown else []
        suggestion = f"; did you mean {nearest[0]}?" if nearest else "."
        self.exit(2, f"Parlance cannot start: {message}{suggestion} See {self.prog} --help.\n")


@contextlib.contextmanager
def mistakes_end_with_status_2() -> Iterator[None]:
    """SystemExit with a sentence, for which Python's status is 1, prints it and becomes SystemExit(2)."""
    try:
        yield
    except SystemExit as end:
        if not isinstance(end.code, str):
            raise
        sys.stderr.write(f"{end.code}\n")
        raise SystemExit(2) from None


def load_settings() -> Settings:
    """Settings from the environment. Wrong ones end the process with one sentence that lists them, and no traceback."""
    return _checked_settings(set())


def _checked_settings(options: set[str], **sources: Any) -> Settings:
    """options: fields whose values come from the command line."""
    _refuse_misspelt_variables()
    try:
        return Settings(**sources)
    except ValidationError as error:
        problems = [_describe_error(details, options) for details in error.errors()]
        raise SystemExit(f"Parlance cannot start: {'; '.join(problems)}.") from None


def _refuse_misspelt_variables() -> None:
    """Ends the start where the name of a variable misspells a setting that guards the server, and warns of variables
    that misspell other settings. Names that are near none pass: an orchestrator may set variables of this prefix, as
    Kubernetes does for a service called parlance."""
    known = [*_READ_BY_BACKENDS, *(field.upper() for field in Settings.model_fields)]
    guards = [name for name in known if name in _GUARDS or name.startswith("MAX_")]
    for variable in sorted(os.environ):
        prefix, _, name = variable.upper().partition("_")
        exact = f"{prefix}_" == PREFIX
        if (exact and name in known) or not (exact or get_close_matches(prefix, [PREFIX[:-1]], 1, 0.8)):
            continue
        meant = name if name in known else "".join(get_close_matches(name, known, 1, 0.75))
        if not meant and exact:
            longer = [guard for guard in guards if name.startswith(f"{guard}_")]  # RATE_LIMIT_PER_MINUTE
            words = [_GUARDING_WORDS[word] for word in name.split("_") if word in _GUARDING_WORDS]
            shorter = [guard for guard in guards if guard.startswith(f"{name}_")]  # CORS
            meant = next(iter(longer + words + shorter), "")
        if meant in guards:
            raise SystemExit(
                f"Parlance cannot start: {variable} is no setting, and without it this server would be less guarded"
                f" than you mean it to be; did you mean {PREFIX}{meant}?"
            )
        if meant:
            sys.stderr.write(f"{variable} is no setting and is ignored; did you mean {PREFIX}{meant}?\n")


def _describe_error(details: ErrorDetails, options: set[str]) -> str:
    field = str(details["loc"][0]) if details["loc"] else ""
    reason = details["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    reason = reason.split(", unable to parse")[0]
    if not field:
        return reason
    if field in ("admin_key", "redis_url"):  # without the value, which is a secret
        return f"{PREFIX}{field.upper()} cannot be used: {reason}"
    if field == "port" and str(details["input"]).startswith("tcp://"):
        reason += "; Kubernetes sets it for a service called parlance: give the pod enableServiceLinks: false"
    name = f"--{field.replace('_', '-')}" if field in options else f"{PREFIX}{field.upper()}"
    return f'{name} is "{details["input"]}": {reason}'
