// Node's fetch (undici) and its older http: node posts.mjs BASE FORM JSON PROMPT STREAM COMPLETION
import http from "node:http";

const [base, ...bodies] = process.argv.slice(2);
const json = "application/json";
const file =
  '--b\r\nContent-Disposition: form-data; name="source"\r\n\r\nde\r\n' +
  '--b\r\nContent-Disposition: form-data; name="target"\r\n\r\nen\r\n' +
  '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhallo welt\r\n--b--\r\n';
const posts = {
  form: ["/translate", "application/x-www-form-urlencoded", bodies[0]],
  json: ["/translate", json, bodies[1]],
  generate: ["/generate", json, bodies[2]],
  stream: ["/generate", json, bodies[3]],
  completion: ["/v1/completions", json, bodies[4]],
  file: ["/translate_file", "multipart/form-data; boundary=b", file],
};

/** In pieces of five bytes, of which each is a chunk of its own. */
async function* pieces(body) {
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += 5) {
    yield bytes.subarray(at, at + 5);
    await new Promise(setImmediate);
  }
}

async function read(answer) {
  return [answer.status, await answer.text()];
}

function older(path, type, body, { chunked, headers = {}, agent }) {
  return new Promise((resolve, reject) => {
    const fields = { "Content-Type": type, ...headers };
    if (!chunked) fields["Content-Length"] = Buffer.byteLength(body);
    const request = http.request(base + path, { method: "POST", headers: fields, agent }, async (answer) => {
      let text = "";
      for await (const part of answer.setEncoding("utf8")) text += part;
      resolve([answer.statusCode, text]);
    });
    request.on("error", reject);
    const send = async () => {
      if (!chunked) return request.end(body);
      for await (const piece of pieces(body)) request.write(piece);
      request.end();
    };
    if (headers.Expect) request.on("continue", send);
    else send();
    if (headers.Expect) request.flushHeaders();
  });
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const expect = { Expect: "100-continue" };
const upgrade = { Connection: "Upgrade", Upgrade: "h2c" };
const clients = {
  fetch: (path, type, body) => fetch(base + path, { method: "POST", headers: { "Content-Type": type }, body }).then(read),
  "fetch, stream": (path, type, body) =>
    fetch(base + path, {
      method: "POST",
      headers: { "Content-Type": type },
      body: ReadableStream.from(pieces(body)),
      duplex: "half",
    }).then(read),
  http: (...post) => older(...post, { agent }),
  "http, chunked": (...post) => older(...post, { agent, chunked: true }),
  "http, 100-continue": (...post) => older(...post, { agent, headers: expect }),
  "http, chunked, 100-continue": (...post) => older(...post, { agent, chunked: true, headers: expect }),
  "http, upgrade": (...post) => older(...post, { headers: upgrade }),
  "http, chunked, upgrade": (...post) => older(...post, { chunked: true, headers: upgrade }),
};
const answers = {};
for (const [client, post] of Object.entries(clients)) {
  answers[client] = {};
  for (const [name, given] of Object.entries(posts)) answers[client][name] = await post(...given);
}
console.log(JSON.stringify(answers));
agent.destroy();
