// A program with the output of `tieline tunnel --json`.

"use strict";

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

if (process.env.TEST_FAILS) {
  process.stderr.write("cloudflared is not installed\n");
  process.exit(1);
}
process.stdout.write("not JSON\n");
print({ event: "open", url: "https://x.example/cursor/v1", key: "secret-key-1234", models: ["a/b", "c/d"] });
print({ event: "request", model: "a/b", status: 200 });
setTimeout(() => process.exit(0), 30_000);
