// Keys, retries, user agents, languages, usage and limits.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import * as deepl from "deepl-node";
import { Between, test } from "../suite.mjs";
import { base, between, client, german, makeClient, ours, sentence, texts } from "./setup.mjs";

const require = createRequire(import.meta.url);
const { RETRYABLE_AXIOS_ERROR_CODES } = require("deepl-node/dist/client.js");
const { isFreeAccountAuthKey } = require("deepl-node/dist/utils.js");
const log = require("loglevel");

for (const code of ["ETIMEDOUT", "ECONNABORTED", "ECONNRESET", "EPIPE", "EAI_AGAIN"])
  test(`${code} is tried again`, () => assert(RETRYABLE_AXIOS_ERROR_CODES.has(code)));
for (const code of ["ENOTFOUND", "ECONNREFUSED", "CERT_HAS_EXPIRED"])
  test(`${code} is not tried again`, () => assert(!RETRYABLE_AXIOS_ERROR_CODES.has(code)));

async function logged(work) {
  const lines = [];
  const logger = log.getLogger("deepl");
  const { methodFactory } = logger;
  logger.methodFactory = (method) => (line) => method === "debug" && lines.push(line);
  logger.setLevel("debug");
  try {
    await work();
  } finally {
    logger.methodFactory = methodFactory;
    logger.setLevel("warn");
  }
  const starts = ["Request details:", "Trace details:, xTraceId = ", "Response details:, content = "];
  const told = lines.map((line) => starts.find((start) => line.startsWith(start))).filter(Boolean); // beside retries
  assert.deepEqual(told, starts);
}

test("a translation is logged", () => logged(() => client.translateText(sentence, null, "de")));
test("a rephrased text is logged", () => logged(() => client.rephraseText(german, "de")));

test("an empty key is refused", () => assert.throws(() => new deepl.DeepLClient(""), /authKey.*empty/));
test("a wrong key has no usage", () =>
  assert.rejects(new deepl.DeepLClient("wrong", { serverUrl: base }).getUsage(), deepl.AuthorizationError));
test("a wrong key translates nothing", () =>
  assert.rejects(makeClient({ key: "wrong" }).translateText(sentence, null, "de"), deepl.AuthorizationError));

test("every language is translated", async () => {
  for (const code of [...Object.keys(texts), "en-us", "pt-br", "zh-hans", "zh-hant"]) {
    const source = code.split("-")[0];
    const text = texts[source];
    const result = await client.translateText(text, source, "en-US");
    assert.equal(result.text, source === "en" ? text : await ours(text, source, "en"));
    assert.equal(result.billedCharacters, text.length);
  }
});

for (const sendPlatformInfo of [undefined, true, false]) {
  for (const appInfo of [undefined, { appName: "ours", appVersion: "1.2.3" }]) {
    test(`user agent: platform ${sendPlatformInfo}, application ${appInfo !== undefined}`, async () => {
      const seen = await new Between(base).open();
      await makeClient({ serverUrl: seen.base, sendPlatformInfo, appInfo }).getUsage();
      const agent = seen.headers["user-agent"];
      assert(agent.startsWith("deepl-node/"));
      assert.equal(agent.includes("(") && agent.includes(" node/"), sendPlatformInfo !== false);
      assert.equal(agent.endsWith(" ours/1.2.3"), appInfo !== undefined);
    });
  }
}

test("usage is a sentence", async () => assert.match((await client.getUsage()).toString(), /^Usage this billing period/));

test("languages have names and formality", async () => {
  const sources = await client.getSourceLanguages();
  assert.deepEqual(sources.filter(({ code }) => code === "en").map(({ name }) => name), ["English"]);
  assert(sources.every((language) => !("supportsFormality" in language)));
  const targets = await client.getTargetLanguages();
  assert(targets.every(({ supportsFormality }) => supportsFormality !== undefined));
  assert.deepEqual(targets.filter(({ code }) => code === "de"), [{ name: "German", code: "de", supportsFormality: true }]);
});

test("pairs of glossaries", async () => {
  const pairs = (await client.getGlossaryLanguagePairs()).map(({ sourceLang, targetLang }) => `${sourceLang} ${targetLang}`);
  assert(pairs.includes("de en") && pairs.includes("en de"));
});

test("keys of free accounts", () => assert.deepEqual(["a:fx", "a"].map(isFreeAccountAuthKey), [true, false]));

test("no answer is a connection error", async () => {
  between.dropped = 1;
  await assert.rejects(makeClient({ serverUrl: between.base, maxRetries: 0 }).getUsage(), deepl.ConnectionError);
});

test("a rate limit is too many requests", async () => {
  const limited = makeClient({ key: "rate-2", maxRetries: 0 });
  await limited.translateText(sentence, null, "de");
  await assert.rejects(limited.translateText(sentence, null, "de"), deepl.TooManyRequestsError);
});

test("a quota of characters", async () => {
  const limited = makeClient({ key: "quota-1" });
  let { character, document, teamDocument } = await limited.getUsage();
  assert.deepEqual([character.limit, character.limitReached(), document, teamDocument], [20, false, undefined, undefined]);
  await limited.translateText("a".repeat(20), "en", "de");
  const usage = await limited.getUsage();
  assert(usage.anyLimitReached() && usage.character.limitReached());
  await assert.rejects(limited.translateText(sentence, null, "de"), deepl.QuotaExceededError);
  await assert.rejects(limited.uploadDocument(Buffer.from("a"), "en", "de", { filename: "a.txt" }), /[Qq]uota/);
});

for (const [name, key, field] of [["documents", "quota-2", "document"], ["a team's documents", "quota-3", "teamDocument"]])
  test(`a quota of ${name}`, async () => assert.equal((await makeClient({ key }).getUsage())[field]?.limit, 1));
