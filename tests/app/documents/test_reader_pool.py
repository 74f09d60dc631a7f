"""Processes that read large documents: the same answers, and an end of those that take too much."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import zipfile
from pathlib import Path

import pytest

from app import documents
from app.documents import reader_pool
from app.documents.reader_pool import IN_PLACE_BYTES, File, Job, ReaderPool, Texts, answer, is_small, messages
from app.errors import InvalidRequest
from models.child_process import frame
from tests.app.documents.sample_documents import Backwards, open_document, repacked, through, word_document
from tests.app.documents.test_hostile_files import word_file
from tests.combinations import slow_but


def reader_pids() -> list[int]:
    """The children of this process that read documents."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in children if b"reader_pool" in Path(f"/proc/{child}/cmdline").read_bytes()]


def reader_processes() -> int:
    return len(reader_pids())


def test_small_files_are_read_in_place() -> None:
    assert is_small(".txt", b"a" * IN_PLACE_BYTES)
    assert not is_small(".txt", b"a" * (IN_PLACE_BYTES + 1))
    assert is_small(".docx", word_document())
    assert is_small(".odt", b"no package")
    assert not is_small(".odt", repacked(open_document(), lambda _, data: data, {"a": b"\0" * 3_000_000}))


def test_large_file_is_translated_as_in_place() -> None:
    content = word_document() + b"\0" * 60_000  # a long comment behind the package
    assert not is_small(".docx", content)

    async def pooled() -> tuple[bytes, bytes]:
        pool = ReaderPool()
        try:
            page = ("<p>eins <b>zwei</b></p>\n" * 3000).encode()
            with pytest.raises(InvalidRequest, match="cannot be read as an OpenDocument"):
                await documents.translated(".odt", b"x" * 60_000, Backwards(), readers=pool)
            return (
                await documents.translated(".docx", content, Backwards(), readers=pool),
                await documents.translated(".html", page, Backwards(), readers=pool),
            )
        finally:
            await pool.close()
            assert reader_processes() == 0

    document, page = asyncio.run(pooled())
    in_place = through(".docx", content)[0]
    with zipfile.ZipFile(io.BytesIO(document)) as package, zipfile.ZipFile(io.BytesIO(in_place)) as expected:
        assert package.namelist() == expected.namelist()
        assert all(package.read(name) == expected.read(name) for name in package.namelist())
    assert page.decode() == "<p><b>ZWEI</b> EINS</p>\n" * 3000


def test_file_that_takes_too_long_is_refused_and_its_process_ends() -> None:
    async def late() -> None:
        pool = ReaderPool(processes=1, time_limit_s=0)
        with pytest.raises(InvalidRequest, match="takes more than 0 seconds"):
            await pool.run(".txt", b"a" * 1_000_000)
        await pool.close()
        assert reader_processes() == 0

    asyncio.run(late())


def test_process_ends_when_its_client_leaves_and_the_next_file_is_read() -> None:
    async def leave() -> None:
        pool = ReaderPool(processes=1)
        task = asyncio.create_task(pool.run(".docx", word_file("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 50_000)))
        while not reader_processes():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        read = await pool.run(".txt", b"eins")
        assert isinstance(read, Texts)
        written = await pool.run(".txt", b"eins", ["one"])
        assert isinstance(written, File)
        assert (read.texts, written.content) == (["eins"], b"one")
        assert reader_processes() == 1  # one process, kept for both
        await pool.close()
        assert reader_processes() == 0

    asyncio.run(leave())


def test_file_that_takes_too_much_memory_is_refused() -> None:
    async def large() -> None:
        pool = ReaderPool(processes=1, memory_bytes=200_000_000)
        with pytest.raises(InvalidRequest, match=r"takes more than 0\.2 GB to read or write; send it in parts\.$"):
            await pool.run(".txt", b"a. " * 20_000_000)
        assert isinstance(await pool.run(".txt", b"eins"), Texts)
        await pool.close()

    asyncio.run(large())


@pytest.mark.parametrize(
    "said", slow_but([b"\xff" * 8, bytes(2), frame([{"type": "Job"}]), frame([7])], b"\xff" * 8, frame([7]))
)
def test_process_that_a_file_has_taken_over_costs_that_file_alone(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may send what it likes, and the server goes on."""

    async def taken_over() -> None:
        pool = ReaderPool(processes=1)
        with monkeypatch.context() as patch:
            code = f"import os, sys; os.read(int(sys.argv[-1]), 1000); os.write(int(sys.argv[-1]), {said!r})"
            patch.setattr(reader_pool, "_PROGRAM", f"'reader_pool'; {code}")
            with pytest.raises(InvalidRequest, match="send it in parts"):
                await pool.run(".txt", b"eins")
        assert isinstance(await pool.run(".txt", b"zwei"), Texts)
        await pool.close()
        assert reader_processes() == 0

    asyncio.run(taken_over())


def test_process_that_was_killed_while_it_had_nothing_to_read_refuses_no_file() -> None:
    """The next file was said to take more than 2 GB."""

    async def killed() -> None:
        pool = ReaderPool(processes=1)
        await pool.run(".txt", b"eins")
        (pid,) = reader_pids()
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        read = await pool.run(".txt", b"zwei")
        assert isinstance(read, Texts)
        assert read.texts == ["zwei"]
        await pool.close()
        assert reader_processes() == 0

    asyncio.run(killed())


def test_texts_of_a_large_file_come_in_several_messages() -> None:
    """The event loop has its turns between them; all texts are there, in order."""
    cues = [f"{number}\n00:00:01,000 --> 00:00:02,000\nSatz {number}\n\n" for number in range(25_000)]
    content = "".join(cues).encode()
    sizes = [len(part.texts) for part in messages(answer(Job(".srt", content, 60))) if isinstance(part, Texts)]
    assert sizes == [10_000, 10_000, 5000]

    async def read() -> tuple[Texts, int]:
        pool = ReaderPool()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        others = asyncio.create_task(other())
        try:
            texts = await pool.run(".srt", content)
            assert isinstance(texts, Texts)
            return texts, turns
        finally:
            others.cancel()
            await pool.close()

    texts, turns = asyncio.run(read())
    assert texts.texts == [f"Satz {number}" for number in range(25_000)]
    assert not texts.more
    assert turns >= len(sizes)


def test_answers_of_one_message() -> None:
    for whole in (File(b"a"), Texts([], "text"), Texts(["a"], "html")):
        assert list(messages(whole)) == [whole]
