// A gateway for tests: answers the requests of the extension from memory. As a program it takes the arguments of
// `tieline serve`, and prints its arguments and its key to the standard error, as a careless program would.

"use strict";

const { createServer } = require("node:http");

/** Start a gateway. `state` may be changed while it runs. */
async function serve({
  port = 0,
  host = "127.0.0.1",
  key = "",
  features = ["workspaces", "embed", "stop"],
  stop = () => {},
} = {}) {
  const state = {
    items: [],
    workspaces: new Map(),
    answers: [],
    requests: [],
    watchers: new Set(),
    streams: new Set(),
    version: 1,
  };
  const publish = () => {
    state.version += 1;
    for (const response of state.watchers) response.write(listing(state));
  };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : null;
    const send = (status, value) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    state.requests.push({ method: request.method, path: request.url, headers: request.headers, body });
    if (request.url === "/api/hello")
      return send(200, { status: "ok", service: "tieline", version: "9.9", features, needs_key: key !== "" });
    if (key && request.headers.authorization !== `Bearer ${key}`)
      return send(401, { error: { message: "needs its key" } });
    const route = `${request.method} ${request.url}`;
    if (route === "GET /api/workspaces") return send(200, { workspaces: [...state.workspaces.values()] });
    if (route === "POST /api/workspaces") return send(200, register(state, body));
    if (route === "GET /api/inbox/watch") {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(listing(state));
      state.watchers.add(response);
      response.on("close", () => state.watchers.delete(response));
      return undefined;
    }
    if (route === "POST /api/stop") {
      send(200, {});
      server.close(stop);
      server.closeAllConnections();
      return undefined;
    }
    if (request.method === "PATCH")
      return send(200, Object.assign(state.workspaces.get(request.url.split("/").pop()), body));
    if (route.startsWith("POST /api/inbox/")) return answer(state, request.url.split("/").pop(), body, send, publish);
    return send(404, { error: { message: "no such path" } });
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const close = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  return { base: `http://${host}:${server.address().port}`, port: server.address().port, state, publish, close };
}

const listing = ({ version, items }) => `data: ${JSON.stringify({ version, items })}\n\n`;

function register(state, { path, autonomy = "ask" }) {
  const name = path.split("/").pop();
  state.workspaces.set(name, { name, path, autonomy, tools: true, source: "registered" });
  return state.workspaces.get(name);
}

function answer(state, id, body, send, publish) {
  if (!state.items.some((item) => item.id === id))
    return send(404, { error: { message: `No item ${id} is waiting.` } });
  if (body.values?.word === "wrong") return send(400, { error: { message: "not that", param: "values.word" } });
  state.items = state.items.filter((item) => item.id !== id);
  state.answers.push({ id, body });
  send(200, { id });
  return publish();
}

async function main() {
  const given = (name) => process.argv[process.argv.indexOf(name) + 1];
  process.stderr.write(`started with ${process.argv.slice(2).join(" ")} and ${process.env.TIELINE_KEY}\n`);
  if (process.env.TEST_FAILS) {
    process.stderr.write("tieline.toml, line 3: no such setting\u001b[0m\n");
    process.exit(1);
  }
  try {
    await serve({
      port: Number(given("--port")),
      host: given("--host"),
      key: process.env.TIELINE_KEY,
      stop: () => process.exit(0),
    });
  } catch (error) {
    process.stderr.write(`${error.code}\n`);
    process.exit(1);
  }
  // As with --exit-when-idle, a forgotten gateway ends.
  setTimeout(() => process.exit(0), 30_000);
}

if (require.main === module) void main();

module.exports = { serve };
