// What the files of this suite share; process.argv: the server, and texts by language as JSON.
import * as deepl from "deepl-node";
import { Between } from "../suite.mjs";

export const [base, textsAsJson] = process.argv.slice(2);
export const texts = JSON.parse(textsAsJson);
export const sentence = "the dog sleeps in the house and we see the garden"; // long enough to be detected
export const german = "der hund schläft in dem haus und wir sehen den garten";
export const between = await new Between(base).open();
export const client = makeClient();

export function makeClient({ key = "any", serverUrl = base, ...options } = {}) {
  return new deepl.DeepLClient(key, { serverUrl, ...options });
}

// The answer of our own route.
export async function ours(q = sentence, source = "en", target = "de") {
  const headers = { "Content-Type": "application/json", Authorization: "Bearer any" };
  const answer = await fetch(`${base}/translate`, { method: "POST", headers, body: JSON.stringify({ q, source, target }) });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()).translatedText;
}
