"""POST /tokenize, POST /detokenize and GET /tokenizer_info in vLLM's form."""

from __future__ import annotations

from app.engine.interface import TokenQuery
from tests.app.api.client import Client
from tests.app.api.openai.writer import Writer


def test_text_is_tokenized() -> None:
    client = Client(Writer())
    answer = client.post("/tokenize", json={"prompt": "分开", "return_token_strs": True})
    assert answer.json() == {"count": 2, "max_model_len": 1024, "tokens": [20998, 24320], "token_strs": ["分", "开"]}
    assert client.engine.requests == [TokenQuery("分开", "lyrics-zh", start=True)]
    answer = client.post("/tokenize", json={"prompt": "", "add_special_tokens": False})
    assert answer.json() == {"count": 0, "max_model_len": 1024, "tokens": [], "token_strs": None}
    assert client.engine.requests[-1] == TokenQuery("", "lyrics-zh")


def test_tokens_are_text_again() -> None:
    assert Client(Writer()).post("/detokenize", json={"tokens": [20998, 24320]}).json() == {"prompt": "分开"}


def test_tokenizer_is_described() -> None:
    assert Client(Writer()).get("/tokenizer_info").json() == {
        "tokenizer_class": "CharacterTokenizer",
        "vocab_size": 0x110000,
        "model_max_length": 1024,
        "bos_token": "\n",
        "eos_token": None,
        "unk_token": "<unk>",
        "pad_token": None,
    }


def test_bad_tokens_are_refused_in_openais_form() -> None:
    for tokens in ("x", [1.5], [True], [-1], [2**40]):
        error = Client(Writer()).post("/detokenize", json={"tokens": tokens}).json()["error"]
        sentence = '"tokens" is no list of token ids; they are whole numbers of 0 to 2,147,483,647.'
        assert (error["message"], error["param"]) == (sentence, "tokens")


def test_translator_and_unknown_model_are_404() -> None:
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
        for model in ("tiny-de-en", "nobody"):
            assert Client(Writer()).post(path, json={**body, "model": model}).status_code == 404
    assert Client(Writer()).get("/tokenizer_info?model=nobody").status_code == 404
