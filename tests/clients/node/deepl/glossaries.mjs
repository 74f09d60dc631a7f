// Glossaries of one pair (v2) and of several (v3).
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import * as deepl from "deepl-node";
import { test } from "../suite.mjs";
import { client } from "./setup.mjs";

const { DeepLError, GlossaryNotFoundError } = deepl;
const UNKNOWN = [
  ["no id", DeepLError],
  ["0c5f3e0a-51c7-4b8e-8e0c-3f1d2a9b7c66", GlossaryNotFoundError],
];
const PLAIN = { Apple: "Apfel", Banana: "Banane" };
const ODD = { ...PLAIN, "A%=&": "B&=%", Δぁ: "深", "🪨": "🪵" };
const MANY = Object.fromEntries(Array.from({ length: 10_000 }, (_, number) => [`source ${number}`, `target ${number}`]));
const CSV = 'Apple,Apfel,en,de\n"the ""House""","das Haus, es",en,de';
const CSV_ENTRIES = { Apple: "Apfel", 'the "House"': "das Haus, es" };

const entriesOf = (entries) => new deepl.GlossaryEntries({ entries });

async function assertUnknownIdsAreRefused(work) {
  for (const [id, kind] of UNKNOWN) await assert.rejects(work(id), kind);
}

// A test with a glossary that is gone afterwards.
function testWith(name, make, remove, work) {
  test(name, async () => {
    const made = await make();
    try {
      await work(made);
    } finally {
      await remove(made.glossaryId).catch(() => {});
    }
  });
}

function testWithOne(name, entries, work, [source, target] = ["en", "de"]) {
  const make = () => client.createGlossary(`terms ${randomUUID()}`, source, target, entriesOf(entries));
  testWith(`glossary: ${name}`, make, (id) => client.deleteGlossary(id), work);
}

const remove = (id) => client.deleteMultilingualGlossary(id);
const dictionary = (entries, [sourceLangCode, targetLangCode] = ["en", "de"]) => ({
  sourceLangCode,
  targetLangCode,
  entries: entriesOf(entries),
});
const counts = (glossary) =>
  Object.fromEntries(glossary.dictionaries.map((each) => [`${each.sourceLangCode} ${each.targetLangCode}`, each.entryCount]));
const entriesIn = async (id) => (await client.getMultilingualGlossaryDictionaryEntries(id, "en", "de")).entries.entries();

function testWithSeveral(name, dictionaries, work) {
  const make = () => client.createMultilingualGlossary(`terms ${randomUUID()}`, dictionaries);
  testWith(`several: ${name}`, make, remove, work);
}

testWithOne("created", { Hello: "Hallo" }, async (made) => {
  const read = await client.getGlossary(made.glossaryId);
  for (const glossary of [made, read])
    assert.deepEqual([glossary.sourceLang, glossary.targetLang, glossary.entryCount], ["en", "de", 1]);
  assert.deepEqual([read.glossaryId, read.name, read.creationTime], [made.glossaryId, made.name, made.creationTime]);
});

testWith(
  "glossary: created from CSV",
  () => client.createGlossaryWithCsv("terms", "en", "de", Buffer.from(CSV)),
  (id) => client.deleteGlossary(id),
  async (made) => assert.deepEqual((await client.getGlossaryEntries(made)).entries(), CSV_ENTRIES),
);

test("glossary: wrong ones are refused", async () => {
  await assert.rejects(client.createGlossary("", "en", "de", entriesOf(PLAIN)), DeepLError);
  await assert.rejects(client.createGlossary("terms", "en", "xx", entriesOf(PLAIN)), DeepLError);
});

testWithOne("read", PLAIN, async (made) => {
  assert.deepEqual(await client.getGlossary(made.glossaryId), made);
  await assertUnknownIdsAreRefused((id) => client.getGlossary(id));
});

testWithOne("its entries", PLAIN, async (made) => {
  for (const glossary of [made, made.glossaryId])
    assert.deepEqual((await client.getGlossaryEntries(glossary)).entries(), PLAIN);
  await assertUnknownIdsAreRefused((id) => client.getGlossaryEntries(id));
});

testWithOne("listed", PLAIN, async (made) => {
  const listed = await client.listGlossaries();
  assert.deepEqual(listed.filter(({ glossaryId }) => glossaryId === made.glossaryId), [made]);
});

testWithOne("deleted", PLAIN, async (made) => {
  await client.deleteGlossary(made);
  await assert.rejects(client.getGlossary(made.glossaryId), GlossaryNotFoundError);
  await assertUnknownIdsAreRefused((id) => client.deleteGlossary(id));
});

testWithOne("its terms in texts", PLAIN, async (there) => {
  const back = Object.fromEntries(Object.entries(PLAIN).map(([english, german]) => [german, english]));
  const glossary = await client.createGlossary("terms", "de", "en", entriesOf(back));
  try {
    const german = await client.translateText(Object.keys(PLAIN), "en", "de", { glossary: there });
    assert.deepEqual(german.map(({ text }) => text), Object.values(PLAIN));
    const english = await client.translateText(Object.values(PLAIN), "de", "en-US", { glossary });
    assert.deepEqual(english.map(({ text }) => text), Object.keys(PLAIN));
  } finally {
    await client.deleteGlossary(glossary);
  }
});

testWithOne("its terms in a document", { artist: "Maler", prize: "Gewinn" }, async (glossary) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "terms-"));
  try {
    const output = path.join(folder, "output.txt");
    await client.translateDocument(Buffer.from("artist\nprize"), output, "en", "de", { glossary, filename: "a.txt" });
    assert.equal(fs.readFileSync(output, "utf8"), "Maler\nGewinn");
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

testWith("several: created from CSV", () => client.createMultilingualGlossaryWithCsv("terms", "en", "de", CSV), remove, async (made) => {
  const read = await client.getMultilingualGlossary(made.glossaryId);
  assert.deepEqual([read.name, read.creationTime, counts(read)], ["terms", made.creationTime, { "en de": 2 }]);
});

testWithSeveral("created", [dictionary(PLAIN), dictionary({ Hallo: "Hello" }, ["de", "en"])], async (made) => {
  const read = await client.getMultilingualGlossary(made.glossaryId);
  for (const glossary of [made, read]) assert.deepEqual(counts(glossary), { "en de": 2, "de en": 1 });
  assert.deepEqual([read.name, read.creationTime], [made.name, made.creationTime]);
});

testWithSeveral("dictionary changed from CSV", [dictionary({ Hello: "Hallo" })], async ({ glossaryId, name }) => {
  const changed = await client.updateMultilingualGlossaryDictionaryWithCsv(glossaryId, "en", "de", "Hello,Servus\nApple,Apfel");
  assert.deepEqual([changed.name, counts(changed)], [name, { "en de": 2 }]);
});

testWithSeveral("dictionary changed", [dictionary({ Hello: "Hallo" })], async ({ glossaryId, name }) => {
  const changed = await client.updateMultilingualGlossaryDictionary(glossaryId, dictionary({ Hello: "Servus", Apple: "Apfel" }));
  assert.deepEqual([changed.name, counts(changed)], [name, { "en de": 2 }]);
});

testWithSeveral("large", [dictionary(MANY)], async (made) => {
  assert.deepEqual(counts(made), { "en de": 10_000 });
  assert.deepEqual(await entriesIn(made.glossaryId), MANY);
});

testWithSeveral("read", [dictionary(PLAIN)], async (made) => {
  assert.deepEqual(await client.getMultilingualGlossary(made.glossaryId), made);
  await assertUnknownIdsAreRefused((id) => client.getMultilingualGlossary(id));
});

testWithSeveral("its entries", [dictionary(ODD)], async (made) => {
  for (const glossary of [made, made.glossaryId]) assert.deepEqual(await entriesIn(glossary), ODD);
  await assertUnknownIdsAreRefused(entriesIn);
});

testWithSeveral("name changed", [dictionary(PLAIN)], async ({ glossaryId }) => {
  assert.equal((await client.updateMultilingualGlossaryName(glossaryId, "another")).name, "another");
  assert.equal((await client.getMultilingualGlossary(glossaryId)).name, "another");
});

testWithSeveral("listed", [dictionary(PLAIN)], async (made) => {
  const listed = await client.listMultilingualGlossaries();
  assert.deepEqual(listed.filter(({ glossaryId }) => glossaryId === made.glossaryId), [made]);
});

testWithSeveral("deleted", [dictionary(PLAIN)], async ({ glossaryId }) => {
  await client.deleteMultilingualGlossary(glossaryId);
  await assert.rejects(client.getMultilingualGlossary(glossaryId), GlossaryNotFoundError);
  await assertUnknownIdsAreRefused((id) => client.deleteMultilingualGlossary(id));
});

testWithSeveral("dictionary deleted", [dictionary(PLAIN), dictionary({ Hallo: "Hello" }, ["de", "en"])], async ({ glossaryId }) => {
  await client.deleteMultilingualGlossaryDictionary(glossaryId, "en", "de");
  assert.deepEqual(counts(await client.getMultilingualGlossary(glossaryId)), { "de en": 1 });
  await assertUnknownIdsAreRefused((id) => client.deleteMultilingualGlossaryDictionary(id, "en", "de"));
  await assert.rejects(client.deleteMultilingualGlossaryDictionary(glossaryId, "", ""), deepl.ArgumentError);
});

testWithSeveral("dictionary replaced", [dictionary({ Hello: "Hallo" })], async ({ glossaryId }) => {
  assert.equal((await client.replaceMultilingualGlossaryDictionary(glossaryId, dictionary(PLAIN))).entryCount, 2);
  assert.deepEqual(await entriesIn(glossaryId), PLAIN);
});
