// npm openai: node openai.mjs BASE KEY
import OpenAI from "openai";

const [base, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0 });
const asked = { model: "tiny-lyrics", prompt: "分开", max_tokens: 12, seed: 5, temperature: 1 };
const told = {};

async function refused(work) {
  try {
    await work();
    return null;
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, code: error.code, param: error.param };
  }
}

told.refused = await refused(async () => {
  const whole = await client.completions.create({ ...asked, logprobs: 1 });
  told.text = whole.choices[0].text;
  told.tokens = whole.choices[0].logprobs.tokens.join("");
  told.usage = whole.usage;

  let streamed = "";
  let reason = null;
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
    streamed += chunk.choices[0].text;
    reason = chunk.choices[0].finish_reason;
  }
  told.streamed = streamed;
  told.reason = reason;

  told.models = [];
  for await (const model of client.models.list()) told.models.push(model.id);
  told.model = (await client.models.retrieve("tiny-lyrics")).id;
});
told.unknown = await refused(() => client.completions.create({ ...asked, model: "nobody" }));
told.invalid = await refused(() => client.completions.create({ ...asked, n: 17 }));
console.log(JSON.stringify(told));
