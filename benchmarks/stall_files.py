"""The files of `benchmarks.stalls`: documents just below the limits of the readers, and forms that hold them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping

FILE_BYTES = 9_900_000  # PARLANCE_MAX_FILE_BYTES is 10,000,000
TAGGED_FILE_BYTES = 2_400_000  # of pages, whose reader takes minutes for ten times as many tags as a book has
_DOCUMENT = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_BOUNDARY = "stalls"
RUN = "<w:p><w:r><w:rPr>" + "<w:b/>" * 20 + "</w:rPr>" + "<w:t>Ein Satz. </w:t><w:tab/>" * 20 + "</w:r></w:p>"
PARAGRAPH = '<text:p>Ein <text:span text:style-name="T1">{:07}</text:span> Satz.</text:p>'


def form(name: str, content: bytes, fields: Mapping[str, str]) -> tuple[str, bytes]:
    """The content type of a form with a file of that name, and its bytes."""
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    whole = b"".join([*parts, head, content, f"\r\n--{_BOUNDARY}--\r\n".encode()])
    return f"multipart/form-data; boundary={_BOUNDARY}", whole


def repeated(text: str, size_bytes: int = FILE_BYTES, before: str = "") -> Callable[[], bytes]:
    return lambda: (before + text * (size_bytes // len(text.encode()))).encode()


def _package(parts: Mapping[str, str | bytes], *, stored: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def word(paragraph: str, size_bytes: int) -> Callable[[], bytes]:
    """A Word document whose body has so many bytes. It unpacks to less than 10,000,000 bytes, so that their ratio to
    the file's own does not count."""

    def content() -> bytes:
        types = (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override'
            ' PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'wordprocessingml.document.main+xml"/></Types>'
        )
        relations = (
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
            ' Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
            ' Target="word/document.xml"/></Relationships>'
        )
        body = paragraph * (size_bytes // len(paragraph))
        document = f'<w:document xmlns:w="{_DOCUMENT}"><w:body>{body}</w:body></w:document>'
        parts = {"[Content_Types].xml": types, "_rels/.rels": relations, "word/document.xml": document}
        return _package(parts)

    return content


def open_document(size_bytes: int) -> bytes:
    """An .odt whose paragraphs have so many bytes, each another one: odfdo refuses what unpacks to too many times its
    own size."""
    import odfdo

    document = odfdo.Document("text")
    document.body.clear()
    document.body.append(odfdo.Paragraph("PLACE"))
    out = io.BytesIO()
    document.save(out)
    with zipfile.ZipFile(out) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    content = parts["content.xml"].decode()
    paragraphs = "".join(PARAGRAPH.format(number * 7919 % 9_999_991) for number in range(size_bytes // len(PARAGRAPH)))
    content = re.sub(r"<text:p[^>]*>PLACE</text:p>", paragraphs, content)
    return _package({**parts, "content.xml": content})
