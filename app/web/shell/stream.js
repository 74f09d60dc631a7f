// Server-sent events of a POST, which EventSource cannot send.

import { ApiError, sent } from "./api.js";

// Calls onEvent(name, data) for each event up to the last one; throws ApiError for an `error` event.
export async function stream(path, body, signal, onEvent) {
  const answer = await sent(path, { ...body, stream: true }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const each of events) deliver(each, onEvent);
  }
}

function deliver(text, onEvent) {
  let name = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return;
  const parsed = JSON.parse(data);
  if (name === "error") throw new ApiError(500, parsed);
  onEvent(name, parsed);
}
