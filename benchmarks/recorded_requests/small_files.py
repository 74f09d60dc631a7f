"""Forms with files, and a small file of each kind that can be translated."""

from __future__ import annotations

import io
import zipfile

from benchmarks.recorded_requests.request import BEER, PAGE, SUBTITLES, WORLD


def multipart_form(fields: dict[str, str], files: dict[str, tuple[str, bytes]]) -> tuple[bytes, str]:
    """A form with files, and its content type."""
    boundary = "recorded-boundary"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, (filename, content) in files.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def files_of_each_kind() -> dict[str, bytes]:
    return {
        "a.txt": f"{BEER}\n\n{WORLD}.\n".encode(),
        "b.srt": SUBTITLES.encode(),
        "c.html": PAGE.encode(),
        "d.docx": _word_document(),
        "e.odt": _open_document(),
    }


def _package(parts: dict[str, str], stored_first: bool = False) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for index, (name, text) in enumerate(parts.items()):
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            method = zipfile.ZIP_STORED if stored_first and index == 0 else zipfile.ZIP_DEFLATED
            package.writestr(info, text.encode(), method)
    return content.getvalue()


def _word_document() -> bytes:
    """A .docx with two paragraphs, of which the first has a bold word."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    return _package(
        {
            "[Content_Types].xml": f'{head}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
            "_rels/.rels": f'{head}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId1" Type="{office}" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'{head}<w:document xmlns:w="{word}"><w:body><w:p><w:r><w:t xml:space="preserve">ich '
            "möchte </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>ein bier</w:t></w:r></w:p>"
            f"<w:p><w:r><w:t>{WORLD}</w:t></w:r></w:p></w:body></w:document>",
        }
    )


def _open_document() -> bytes:
    """An .odt with two paragraphs."""
    kind = "application/vnd.oasis.opendocument.text"
    names = "urn:oasis:names:tc:opendocument:xmlns"
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return _package(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'{head}<manifest:manifest xmlns:manifest="{names}:manifest:1.0" '
            f'manifest:version="1.2"><manifest:file-entry manifest:full-path="/" manifest:media-kind="{kind}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-kind="text/xml"/>'
            "</manifest:manifest>",
            "content.xml": f'{head}<office:document-content xmlns:office="{names}:office:1.0" xmlns:text="{names}:text'
            ':1.0" office:version="1.2"><office:body><office:text><text:p>ich möchte '
            f"<text:span>ein bier</text:span></text:p><text:p>{WORLD}</text:p></office:text></office:body>"
            "</office:document-content>",
        },
        stored_first=True,
    )
