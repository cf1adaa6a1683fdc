"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { parseAddress } = require("../src/address");
const { insideFolder, relativePath } = require("../src/paths");

test("paths inside the folder are found", () => {
  assert.deepEqual(insideFolder("/home/me/x", "src/a.py"), ["src", "a.py"]);
  assert.deepEqual(insideFolder("/home/me/x", "/home/me/x/src/../b.py"), ["b.py"]);
  assert.deepEqual(insideFolder("/", "/etc/hosts"), ["etc", "hosts"]);
  assert.deepEqual(insideFolder("/home/me/x", "odd\\name"), ["odd\\name"]);
  assert.deepEqual(insideFolder("C:\\work", "c:\\WORK\\src\\a.py"), ["src", "a.py"]);
  assert.deepEqual(insideFolder("C:\\work", "src\\a.py"), ["src", "a.py"]);
});

test("paths outside of the folder are refused", () => {
  const outside = ["../a", "/home/me/xy/a", "/etc/passwd", "src/../../a", "", ".", "a\0b", 7, null, "x".repeat(5000)];
  for (const path of outside) assert.equal(insideFolder("/home/me/x", path), null, String(path));
  for (const path of ["D:\\a", "..\\a", "a.txt:stream", "\\\\server\\share"])
    assert.equal(insideFolder("C:\\work", path), null, path);
});

test("the path of a file is relative to its folder", () => {
  const uri = (path, scheme = "file") => ({ scheme, authority: "", path });
  assert.equal(relativePath(uri("/a/b"), uri("/a/b/c/d.py")), "c/d.py");
  assert.equal(relativePath(uri("/a/b"), uri("/a/bc/d.py")), null);
  assert.equal(relativePath(uri("/a/b"), uri("/a/b/c", "other")), null);
  assert.equal(relativePath(uri("/a/b"), uri("/a/b")), null);
});

test("only a plain address of this machine can be that of a gateway to start", () => {
  assert.deepEqual(parseAddress("http://127.0.0.1:18741/"), {
    base: "http://127.0.0.1:18741",
    origin: "http://127.0.0.1:18741",
    host: "127.0.0.1",
    port: 18741,
    canStart: true,
  });
  assert.equal(parseAddress("").base, "http://127.0.0.1:18741");
  assert.equal(parseAddress("http://[::1]:5").host, "::1");
  assert.equal(parseAddress("https://gateway.example/tieline/").canStart, false);
  assert.equal(parseAddress("https://gateway.example/tieline/").base, "https://gateway.example/tieline");
});

test("an address that would leak the key, or is none, is refused", () => {
  assert.throws(() => parseAddress("http://gateway.example"), /https/);
  assert.throws(() => parseAddress("http://me:key@127.0.0.1"), /must not contain a key/);
  assert.throws(() => parseAddress("file:///etc"), /http/);
  assert.throws(() => parseAddress("not an address"), /not a URL/);
});
