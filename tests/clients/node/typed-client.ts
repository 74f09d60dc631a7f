// openapi-typescript's types of /openapi.json, with npm openapi-fetch: node typed-client.js BASE
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

type Answers<Path extends "/translate" | "/generate" | "/v1/completions"> =
  paths[Path]["post"]["responses"][200]["content"];
type Same<A, B> = [A, B] extends [B, A] ? true : never;

const baseUrl = process.argv[2]!;
const any = createClient<paths>({ baseUrl });
const json = createClient<paths, "application/json">({ baseUrl });
const events = createClient<paths, "text/event-stream">({ baseUrl });
const german = { q: "guten morgen welt", source: "de", target: "en" };
const lyrics = { prompt: "分开", seed: 5 };

async function main(): Promise<void> {
  // a client for JSON has the answer's type; one for anything has that or an event, which have no field in common
  const translated = await json.POST("/translate", { body: german });
  const text: string | string[] | undefined = translated.data?.translatedText;
  const unknown = await any.POST("/translate", { body: { ...german, target: "zz" } });
  const told: components["schemas"]["ErrorAnswer"] | undefined = unknown.error;
  const generated = await any.POST("/generate", { body: { ...lyrics, max_new_tokens: 4 } });
  const continued: string | null = generated.data && "text" in generated.data ? generated.data.text : null;
  const completed = await any.POST("/v1/completions", { body: { ...lyrics, max_tokens: 4 } });
  const choice: string | null = completed.data && "choices" in completed.data ? completed.data.choices[0]!.text : null;

  const streamed = await events.POST("/translate", { body: { ...german, stream: true }, parseAs: "text" });
  const types: Same<Answers<"/translate">["text/event-stream"], { event: "token" | "done" | "error"; data: string }> = true;
  const chunks: Same<Answers<"/v1/completions">["text/event-stream"], { data: string }> = true;
  const read: Answers<"/generate">["text/event-stream"][] = String(streamed.data)
    .trim()
    .split("\n\n")
    .map((lines) => Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/))));
  const done: components["schemas"]["TranslateAnswer"] = JSON.parse(read.find(({ event }) => event === "done")!.data);

  console.log(JSON.stringify({ text, field: told?.field, continued, choice, done: done.translatedText, types, chunks }));
}

void main();
