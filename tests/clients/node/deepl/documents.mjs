// Documents from paths, streams, buffers and handles; slow ones, and those that cannot be translated.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import * as deepl from "deepl-node";
import { Between, test } from "../suite.mjs";
import { base, between, client, german, makeClient, ours, sentence } from "./setup.mjs";

const LINES = 150; // seconds of work

const folders = fs.mkdtempSync(path.join(os.tmpdir(), "documents-"));
process.on("exit", () => fs.rmSync(folders, { recursive: true }));

function files(text = sentence) {
  const folder = fs.mkdtempSync(path.join(folders, "test-"));
  const [input, output] = ["letter.txt", "output.txt"].map((name) => path.join(folder, name));
  fs.writeFileSync(input, text);
  return { folder, input, output, read: () => fs.readFileSync(output, "utf8") };
}

function largeFiles() {
  return files(Array.from({ length: LINES }, (_, line) => `${sentence} ${line}\n`).join(""));
}

function lines(text) {
  return text.split("\n").length - 1;
}

test("document: paths", async () => {
  const { input, output, read } = files();
  await client.translateDocument(input, output, null, "de");
  assert.equal(read(), await ours());
});

test("document: output that exists", async () => {
  const { input } = files();
  await assert.rejects(client.translateDocument(input, input, null, "de"), /exists/);
});

test("document: input that does not exist", async () => {
  const { output } = files();
  await assert.rejects(client.translateDocument("nowhere.txt", output, null, "de"), /no such file/);
});

test("document: streams", async () => {
  const { input, output, read } = files();
  const stream = fs.createReadStream(input);
  await assert.rejects(client.uploadDocument(stream, null, "de"), /options.filename/);
  const handle = await client.uploadDocument(stream, null, "de", { filename: "letter.txt" });
  const { status } = await client.isDocumentTranslationComplete(handle);
  assert(status.ok() && status.done());
  await client.downloadDocument(handle, fs.createWriteStream(output, { flags: "wx" }));
  assert.equal(read(), await ours());
});

test("document: buffer", async () => {
  const { input, output, read } = files();
  await client.translateDocument(fs.readFileSync(input), output, null, "de", { filename: input });
  assert.equal(read(), await ours());
});

test("document: file handles", async () => {
  const { input, output, read } = files();
  const [from, to] = await Promise.all([fs.promises.open(input, "r"), fs.promises.open(output, "w")]);
  await client.translateDocument(from, to, null, "de", { filename: input });
  await Promise.all([from.close(), to.close()]);
  assert.equal(read(), await ours());
});

test("document: sent again without an answer", async () => {
  const { input, output, read } = files();
  between.dropped = 1;
  await makeClient({ serverUrl: between.base }).translateDocument(input, output, null, "de");
  assert.equal(read(), await ours());
});

test("document: slow", async () => {
  const { input, output, read } = largeFiles();
  await client.translateDocument(input, output, "en", "de");
  assert.equal(lines(read()), LINES);
});

test("document: unknown formality", async () => {
  const { input, output } = files();
  await assert.rejects(client.translateDocument(input, output, null, "de", { formality: "loud" }), /formality/);
});

test("document: in the target language", async () => {
  const { input, output } = files(german);
  await assert.rejects(client.translateDocument(input, output, null, "de"), /Source and target language/);
});

test("document: unknown kind", async () => {
  const { folder, output } = files();
  const input = path.join(folder, "letter.invalid");
  fs.writeFileSync(input, sentence);
  await assert.rejects(client.translateDocument(input, output, null, "de"), /nvalid file|file extension/);
});

test("document: steps", async () => {
  const { input, output, read } = largeFiles();
  const { documentId, documentKey } = await client.uploadDocument(input, "en", "de");
  const handle = { documentId, documentKey };
  let status = await client.getDocumentStatus(handle);
  while (status.ok() && !status.done()) {
    await new Promise((waited) => setTimeout(waited, 100));
    status = await client.getDocumentStatus(handle);
  }
  assert(status.ok());
  await client.downloadDocument(handle, output);
  assert.equal(lines(read()), LINES);
});

test("document: billed characters", async () => {
  const { input } = largeFiles();
  const handle = await client.uploadDocument(input, "en", "de");
  const status = await client.getDocumentStatus(handle);
  assert(status.ok() && !status.done());
  const { handle: same, status: done } = await client.isDocumentTranslationComplete(handle);
  assert.deepEqual(same, handle);
  assert.equal(done.billedCharacters, fs.readFileSync(input, "utf8").length);
});

test("document: unknown handle", () => {
  const handle = { documentId: "1234".repeat(8), documentKey: "5678".repeat(16) };
  return assert.rejects(client.getDocumentStatus(handle), /Not found/);
});

test("extra fields of a document are sent", async () => {
  const seen = await new Between(base).open();
  seen.answer = [456, "{}"];
  const options = { filename: "letter.txt", extraRequestParameters: { "our-parameter": "our-value" } };
  const sent = makeClient({ serverUrl: seen.base }).uploadDocument(Buffer.from(sentence), null, "de", options);
  await assert.rejects(sent, deepl.QuotaExceededError);
  assert.match(seen.body, /form-data; name="our-parameter"\r\n\r\nour-value/);
});
