// Tests by name; what each one that fails says is printed as JSON, null for one that passes.
import http from "node:http";

const tests = new Map();

export function test(name, work) {
  if (tests.has(name)) throw new Error(`there are two tests "${name}"`);
  tests.set(name, work);
}

export async function run() {
  const told = {};
  for (const [name, work] of tests) {
    try {
      await work();
      told[name] = null;
    } catch (error) {
      told[name] = String(error?.stack ?? error);
    }
  }
  console.log(JSON.stringify(told));
  process.exit(0); // clients keep connections open
}

// Passes requests on to a server, except for the next `dropped`, whose connections end without an answer. With `answer`
// [status, body] the server is not asked. `headers` and `body` are of the last request.
export class Between {
  constructor(base) {
    Object.assign(this, { dropped: 0, answer: null, headers: {}, body: "" });
    this.server = http.createServer(async (request, response) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      const body = Buffer.concat(parts);
      Object.assign(this, { headers: request.headers, body: body.toString() });
      if (this.dropped > 0) {
        this.dropped -= 1;
        request.socket.destroy();
      } else if (this.answer !== null) {
        response.writeHead(this.answer[0], { "Content-Type": "application/json" }).end(this.answer[1]);
      } else {
        const { method, headers, url } = request;
        http.request(base + url, { method, headers }, (got) => {
          response.writeHead(got.statusCode, got.headers);
          got.pipe(response);
        }).end(body);
      }
    });
  }

  async open() {
    await new Promise((opened) => this.server.listen(0, "127.0.0.1", opened));
    this.base = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }
}
