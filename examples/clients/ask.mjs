// node examples/clients/ask.mjs [http://127.0.0.1:8000]: the text appears while it is found
const base = process.argv[2] ?? "http://127.0.0.1:8000";
const answer = await fetch(`${base}/translate`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ q: "ich möchte ein bier", source: "de", target: "en", stream: true }),
});
let rest = "";
for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
  const events = (rest + part).split("\n\n");
  rest = events.pop();
  for (const event of events) {
    const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/s);
    if (name === "token") process.stdout.write(JSON.parse(data).text);
    if (name === "error") throw new Error(JSON.parse(data).error);
  }
}
process.stdout.write("\n");
