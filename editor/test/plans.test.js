"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor, vscode } = require("./support/vscode");
const { Documents } = require("../src/documents");
const { readItems } = require("../src/items");
const { Plans } = require("../src/plans");
const { PlanProgress } = require("../src/plan-progress");
const { ItemQueue } = require("../src/queue");

const STEPS = [{ content: "Read" }, { content: "Write", priority: "high" }];

function opened(more = {}, outcome = "accepted") {
  const queue = new ItemQueue();
  const ask = { type: "plan_review", title: "Tidy up", plan: "Do it.\u202e", steps: STEPS, ...more };
  queue.update("w", readItems([{ id: "1", origin: { client: "page", session: "s" }, ask }], "w"));
  const documents = new Documents();
  const sent = [];
  const followed = [];
  const plans = new Plans(
    documents,
    queue,
    async (item, body) => {
      sent.push(body);
      queue.answering(item.id);
      queue.settle(item.id);
      plans.update();
      return { outcome, message: "" };
    },
    (...session) => followed.push(session),
  );
  const text = () => documents.provideTextDocumentContent(editor.shown[0]);
  const lenses = () => plans.provideCodeLenses({ uri: editor.shown[0] }).map(({ command }) => command.title);
  return { queue, documents, plans, sent, followed, text, lenses };
}

beforeEach(() => editor.reset());

test("a plan is a document with buttons, and its language is not Markdown", async () => {
  const { queue, plans, text, lenses, followed } = opened();
  await plans.show(queue.get("1"));
  assert.match(editor.shown[0].path, /Tidy up\.tieline-plan$/);
  const steps = "## Steps: 0 of 2 done\n\n- [ ] Read\n- [ ] Write (high priority)";
  assert.equal(text(), `# Tidy up\n\nWaits for your decision. (page)\n\n${steps}\n\n## Plan\n\nDo it.\\u202e\n`);
  assert.deepEqual(lenses(), ["$(check) Approve", "$(close) Reject with Feedback…"]);
  assert.deepEqual(followed, [["w", "s"]]);
});

test("a plan is rejected with feedback, and Escape rejects nothing", async () => {
  const { queue, plans, sent, text, lenses } = opened();
  await plans.show(queue.get("1"));
  editor.input = () => undefined;
  await plans.reject("1");
  assert.deepEqual(sent, []);
  editor.input = () => "Use blue.";
  await plans.reject("1");
  assert.deepEqual(sent, [{ approved: false, feedback: "Use blue." }]);
  assert.match(text(), /Rejected: Use blue\./);
  assert.deepEqual(lenses(), []);
  assert.equal(plans.progress, null);
});

test("a plan is approved, and its steps are followed in the document", async () => {
  const { queue, plans, sent, text } = opened();
  await plans.show(queue.get("1"));
  await plans.approve(editor.shown[0]);
  assert.deepEqual(sent, [{ approved: true, feedback: "" }]);
  plans.setSteps("s", [
    { content: "Read", status: "completed" },
    { content: "Write", status: "in_progress" },
  ]);
  assert.match(text(), /Approved\. .*\n\n## Steps: 1 of 2 done\n\n- \[x\] Read\n- \[>\] Write/);
  assert.deepEqual(plans.progress, { done: 1, total: 2, title: "Tidy up" });
});

test("a plan whose document was closed can be opened again", async (context) => {
  let onClosed;
  context.mock.method(vscode.workspace, "onDidCloseTextDocument", (listener) => (onClosed = listener));
  const { queue, documents, plans, text } = opened();
  documents.register();
  await plans.show(queue.get("1"));
  onClosed({ uri: editor.shown[0] });
  await plans.showLatest();
  assert.match(text(), /^# Tidy up/);
});

test("an agent's own options decide how a plan can be approved", async () => {
  const options = [
    { id: "auto", label: "Yes, edit automatically", kind: "allow_always" },
    { id: "ask", label: "Yes, ask each time", kind: "allow_once" },
    { id: "no", label: "No", kind: "reject_once" },
  ];
  const { queue, plans, sent } = opened({ options });
  await plans.show(queue.get("1"));
  editor.pick = () => undefined;
  await plans.approve("1");
  assert.deepEqual(sent, []);
  editor.pick = (rows) => rows[1];
  await plans.approve("1");
  assert.deepEqual(sent, [{ approved: true, feedback: "", option: "ask" }]);
});

test("a late answer does not claim that the plan was approved", async () => {
  const { queue, plans, text } = opened({}, "late");
  await plans.show(queue.get("1"));
  await plans.approve("1");
  assert.match(text(), /decided elsewhere, or it has expired/);
});

test("a plan that is decided elsewhere says so, and can no longer be approved", async () => {
  const { queue, plans, sent, text } = opened();
  await plans.show(queue.get("1"));
  queue.update("w", []);
  plans.update();
  assert.match(text(), /decided elsewhere, or it has expired/);
  await plans.approve("1");
  assert.deepEqual(sent, []);
  assert.match(editor.messages[0].text, /already decided/);
});

test("steps are read from the stream until the turn ends", async () => {
  const messages = [
    { type: "events", session: "other", events: [{ type: "plan", entries: [] }] },
    { type: "events", session: "s", events: [{ type: "delta" }, { type: "plan", entries: [1] }] },
    { type: "turn", session: "s", turn: { role: "assistant", plan: { entries: [2] } } },
    { type: "events", session: "s", events: [{ type: "plan", entries: [3] }] },
  ];
  const got = [];
  const ended = new Promise((resolve) => {
    const watch = async (_path, { signal, received }) => {
      for (const message of messages) if (!signal.aborted) received(JSON.stringify(message), "1");
      resolve(undefined);
    };
    new PlanProgress(
      { api: { watch } },
      (...facts) => got.push(facts),
      async () => {},
    ).follow("w", "s");
  });
  await ended;
  assert.deepEqual(got, [
    ["s", [1]],
    ["s", [2]],
  ]);
});
