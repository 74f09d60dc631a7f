// Texts and their options; rephrasing, styles and translation memories.
import assert from "node:assert/strict";
import * as deepl from "deepl-node";
import { Between, test } from "../suite.mjs";
import { base, client, german, makeClient, ours, sentence } from "./setup.mjs";

const PAGE = "<!DOCTYPE html>\n<html>\n  <body>\n    <p>We see the house and the dog.</p>\n  </body>\n</html>";
const ID = "6f1c9f52-0d4e-4f8e-9a52-51b1d2a4c0aa";
const { ArgumentError, WritingStyle, WritingTone } = deepl;

function translated(options = {}, target = "de", source = null) {
  return client.translateText(sentence, source, target, options);
}

test("one text", async () => {
  const result = await translated();
  assert.deepEqual([result.text, result.detectedSourceLang, result.billedCharacters], [await ours(), "en", sentence.length]);
});

for (const modelType of ["quality_optimized", "latency_optimized", "prefer_quality_optimized"])
  test(`the kind of model is told: ${modelType}`, async () => assert((await translated({ modelType })).modelTypeUsed));

test("texts of two languages", async () => {
  const french = "le chien dort dans la maison et nous voyons le jardin";
  const results = await client.translateText([french, sentence], null, "en-US");
  assert.deepEqual(results.map(({ text }) => text), [await ours(french, "fr", "en"), sentence]);
  assert.deepEqual(results.map(({ detectedSourceLang }) => detectedSourceLang), ["fr", "en"]);
});

test("codes in any case", async () => {
  for (const [source, target] of [["en", "de"], ["eN", "De"]]) {
    const result = await translated({}, target, source);
    assert.deepEqual([result.text, result.detectedSourceLang], [await ours(), "en"]);
  }
});

test("another path", async () => {
  const result = await translated({ __path: "/v2/translate_secondary" });
  assert.equal(result.text, await ours());
});

test("targets without a region are refused", async () => {
  for (const target of ["en", "pt"]) await assert.rejects(client.translateText(german, null, target), /deprecated/);
});

test("unknown languages are named", async () => {
  await assert.rejects(client.translateText(german, "xx", "en-US"), /source_lang/);
  await assert.rejects(client.translateText(german, null, "xx"), /target_lang/);
});

test("empty texts are refused", async () => {
  for (const text of ["", [""]]) await assert.rejects(client.translateText(text, null, "de"), /texts parameter/);
});

test("the client waits for the rate", async () => {
  const limited = makeClient({ key: "rate-1" });
  for (let time = 0; time < 2; time++) assert.equal((await limited.translateText(sentence, null, "de")).text, await ours());
});

test("an unknown formality is refused", () => assert.rejects(translated({ formality: "loud" }), /formality/));

test("splitting into sentences", async () => {
  for (const splitSentences of ["off", "on", "nonewlines", "default"]) assert((await translated({ splitSentences })).text);
  await assert.rejects(translated({ splitSentences: "everywhere" }), /split_sentences/);
});

test("preserved formatting", async () => {
  for (const preserveFormatting of [false, true]) assert.equal((await translated({ preserveFormatting })).text, await ours());
});

test("tags", async () => {
  for (const tagHandling of ["html", "xml"])
    assert.match((await client.translateText(PAGE, "en", "de", { tagHandling })).text, /^<!DOCTYPE html>\n<html>/);
});

test("versions of tag handling", async () => {
  for (const tagHandlingVersion of ["v1", "v2"]) {
    const text = `<p>${sentence}</p>`;
    const result = await client.translateText(text, null, "de", { tagHandling: "html", tagHandlingVersion });
    assert.match(result.text, /^<p>.+<\/p>$/);
    assert.equal(result.detectedSourceLang, "en");
  }
});

test("context", async () => {
  for (const context of [undefined, "das ist ein messer"])
    assert.equal((await client.translateText(german, null, "en-US", { context })).text, await ours(german, "de", "en"));
});

test("extra fields win", async () => {
  const result = await translated({ extraRequestParameters: { target_lang: "fr", debug: "1" } });
  assert.deepEqual([result.text, result.detectedSourceLang], [await ours(sentence, "en", "fr"), "en"]);
  assert.equal(result.billedCharacters, sentence.length);
});

test("no custom instructions", async () => assert.equal((await translated({ customInstructions: [] })).text, await ours()));

test("extra fields of a text are sent", async () => {
  const seen = await new Between(base).open();
  seen.answer = [456, "{}"];
  const options = { extraRequestParameters: { "our-parameter": "our-value" } };
  const sent = makeClient({ serverUrl: seen.base }).translateText(sentence, null, "de", options);
  await assert.rejects(sent, deepl.QuotaExceededError);
  assert.match(seen.body, /our-parameter=our-value/);
});

test("rephrased", async () => {
  const result = await client.rephraseText(german, "de");
  assert.deepEqual([result.detectedSourceLang, result.targetLang], ["de", "de"]);
});
test("rephrasing: unknown language", () => assert.rejects(client.rephraseText(german, "lv"), /target_lang'? not supported/));
test("rephrasing: language without tones", () =>
  assert.rejects(client.rephraseText(german, "ja", null, WritingTone.CONFIDENT), /does not support setting a tone/));
test("rephrasing: language without styles", () =>
  assert.rejects(client.rephraseText(german, "ja", WritingStyle.BUSINESS), /does not support setting a writing style/));
test("rephrasing: style and tone", () =>
  assert.rejects(
    client.rephraseText(sentence, "en", WritingStyle.BUSINESS, WritingTone.CONFIDENT),
    /Both writing_style and tone defined/,
  ));
for (const [name, style, tone] of [
  ["default style", WritingStyle.DEFAULT, WritingTone.CONFIDENT],
  ["default tone", WritingStyle.ACADEMIC, WritingTone.DEFAULT],
  ["neither style nor tone", null, undefined],
])
  test(`rephrasing: ${name}`, async () => assert.equal((await client.rephraseText(sentence, "en", style, tone)).targetLang, "en-US"));
test("rephrasing: each of style and tone", async () => {
  assert((await client.rephraseText(sentence, "en", null, WritingTone.CONFIDENT)).text);
  assert((await client.rephraseText(sentence, "en", WritingStyle.BUSINESS, null)).text);
});

test("styles: listed with details", async () => assert((await client.getAllStyleRules(0, 10, true))[0].configuredRules));
test("styles: listed", async () => assert((await client.getAllStyleRules()).length > 0));
test("styles: kept", async () => {
  const made = await client.createStyleRule({ name: "ours", language: "en" });
  assert.equal((await client.getStyleRule(made.styleId)).name, "ours");
  assert.equal((await client.updateStyleRuleName(made.styleId, "theirs")).name, "theirs");
  await client.deleteStyleRule(made.styleId);
});
test("styles: without a name, a language, an id, a label or a prompt", async () => {
  for (const [method, ...values] of [
    ["createStyleRule", { name: "", language: "en" }],
    ["createStyleRule", { name: "ours", language: "" }],
    ["getStyleRule", ""],
    ["updateStyleRuleName", ID, ""],
    ["deleteStyleRule", ""],
    ["updateStyleRuleConfiguredRules", "", {}],
    ["createStyleRuleCustomInstruction", ID, { label: "", prompt: "be brief" }],
    ["createStyleRuleCustomInstruction", ID, { label: "brief", prompt: "" }],
    ["getStyleRuleCustomInstruction", ID, ""],
    ["deleteStyleRuleCustomInstruction", ID, ""],
  ])
    await assert.rejects(client[method](...values), ArgumentError);
});
test("styles: of a text, by its id", async () => assert((await translated({ styleRule: ID })).text));
test("styles: of a text, as an object", async () => {
  const [styleRule] = await client.getAllStyleRules();
  assert((await translated({ styleRule })).text);
});

test("translation memories: listed", async () => assert((await client.listTranslationMemories(0, 10)).length > 0));
test("translation memories: of a text", async () => assert((await translated({ translationMemory: ID })).text));
test("translation memories: with a threshold", async () =>
  assert((await translated({ translationMemory: ID, translationMemoryThreshold: 80 })).text));
