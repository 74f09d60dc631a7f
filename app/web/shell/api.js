// Every request of the page. Addresses are relative: it also works below a prefix.

import { currentKey, renewKey } from "./key.js";

export class ApiError extends Error {
  constructor(status, body, retryAfter = null) {
    super(body.error);
    this.retryAfter = retryAfter;
    this.status = status;
    this.code = body.code ?? "";
    this.field = body.field ?? null;
  }
}

export async function get(path, signal) {
  return (await asked(path, { signal })).json();
}

export async function post(path, body, signal) {
  return (await sent(path, body, signal)).json();
}

export async function sent(path, body, signal) {
  return asked(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

export async function asked(path, options) {
  let answer;
  const mine = currentKey();
  try {
    answer = await fetch(path, { ...options, headers: { ...(mine && { "X-Api-Key": mine }), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", error: "" });
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({ error: `${answer.status} ${answer.statusText}` }));
  if (body.code?.startsWith("key_") && !options.headers?.["X-Api-Key"] && await renewKey(mine, body.code)) return asked(path, options);
  throw new ApiError(answer.status, body, Number(answer.headers.get("Retry-After")) || null);
}

export function aborted(error) {
  return error?.name === "AbortError";
}

// What this server answers beyond the first version, by its own description: nothing is asked for that is not there.
let described = null;

export function features() {
  described ??= get("openapi.json").then(read, (error) => {
    described = null; // asked again by whoever needs it next
    throw error;
  });
  return described;
}

function read(description) {
  const fields = (name) => description.components?.schemas?.[name]?.properties ?? {};
  const attention = fields("AttentionRequest");
  const paths = description.paths ?? {};
  return {
    gates: "/gates" in paths,
    score: "/score" in paths,
    walkthrough: "/walkthrough" in paths,
    steps: "top_k" in attention,
    stats: "include" in attention,
    ablation: "mask_heads" in attention,
    worked: "qk" in attention,
    encoding: "encoding" in attention,
  };
}
