// Lists, the feed, downloads, and the names of operations.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, CursorExpired, NoAnswer, VERSION } from "pixconnect-client";
import { done, lost, makeWorld, refused } from "./world.js";

const page = (numbers, next, hasNext = next !== undefined) =>
  done(
    numbers.map((id) => ({ id })),
    { pagination: { page: 1, page_size: 2, total_items: 3, total_pages: 2, has_next: hasNext, has_prev: false } },
    next === undefined ? {} : { Link: `<${next}>; rel="next"` },
  );

test("a list goes on by the cursor that the service names, and at its own host only", async () => {
  const outcomes = [page([3, 2], "http://evil.example/elsewhere?after=c%2B1&status=APPROVED"), page([1])];
  const world = makeWorld({ outcomes });
  const found = [];
  for await (const charge of world.client.charges.list({ status: "APPROVED", page: 1, initial_date: new Date(0) })) {
    found.push(charge.id);
  }
  assert.deepEqual(found, [3, 2, 1]);
  const [first, second] = world.sent.map((one) => new URL(one.url));
  assert.equal(first.search, "?status=APPROVED&page=1&initial_date=1970-01-01T00%3A00%3A00.000Z");
  assert.equal(second.host, "pix.example");
  assert.equal(second.pathname, "/v1/connect/charge/list");
  assert.deepEqual([second.searchParams.get("after"), second.searchParams.get("page")], ["c+1", null]);
});

test("a list without cursors goes on by number, and a page is asked for when it is reached", async () => {
  const world = makeWorld({ outcomes: [page([3], undefined, true), page([2])] });
  const pages = world.client.sandbox.keys().pages();
  assert.equal(world.sent.length, 0);
  assert.equal((await pages.next()).value.pagination.total_items, 3);
  assert.equal(world.sent.length, 1);
  await pages.next();
  assert.equal(new URL(world.sent[1].url).search, "?page=2");
  assert.equal((await pages.next()).done, true);
});

test("a page that fails is asked for again, and others are not", async () => {
  const world = makeWorld({ outcomes: [page([3], "?after=a"), lost, page([2])] });
  const found = [];
  for await (const one of world.client.events.list()) {
    found.push(one.id);
  }
  assert.deepEqual(found, [3, 2]);
  assert.equal(world.sent.length, 3);
});

const part = (numbers, cursor) =>
  done({ events: numbers.map((id) => ({ id, cursor: `at-${id}` })), cursor, has_more: false });

test("the feed goes on where it was after a break, however long, and tells no event twice", async () => {
  const outcomes = [part([1, 2], "c2"), lost, refused(503, "SERVICE_UNAVAILABLE"), part([], "c2b"), part([3], "c3")];
  const world = makeWorld({ outcomes, retries: 0 });
  const breaks = [];
  const found = [];
  const query = { start: "oldest", event_types: ["qrcode.approved", "qrcode.expired"] };
  const following = world.client.events.follow(query, { onBreak: (error) => breaks.push(error.name) });
  for await (const item of following) {
    found.push(item.id);
    if (item.id === 3) {
      break;
    }
  }
  assert.deepEqual(found, [1, 2, 3]);
  assert.deepEqual(breaks, ["NoAnswer", "Unavailable"]);
  const asked = world.sent.map((one) => new URL(one.url).searchParams);
  assert.deepEqual(asked.map((one) => one.get("cursor")), [null, "c2", "c2", "c2", "c2b"]);
  assert.deepEqual(asked.map((one) => one.get("start")), ["oldest", null, null, null, null]);
  assert.ok(asked.every((one) => one.get("wait_s") === "25" && one.get("event_types") === "qrcode.approved,qrcode.expired"));
});

test("what waiting does not mend ends the feed, and so do its program and its signal", async () => {
  const first = (world, options) => world.client.events.follow({ cursor: "c" }, options).next();
  await assert.rejects(first(makeWorld({ outcomes: [refused(410, "CURSOR_EXPIRED")] })), CursorExpired);
  await assert.rejects(first(makeWorld({ outcomes: [lost], retries: 0 })), NoAnswer);
  const { value } = await first(makeWorld({ outcomes: [lost, part([1], "c1")], retries: 0 }), { onBreak: () => undefined });
  assert.equal(value.id, 1);
  const onBreak = (error) => {
    throw error;
  };
  await assert.rejects(first(makeWorld({ outcomes: [lost], retries: 0 }), { onBreak }), NoAnswer);
  assert.deepEqual(await first(makeWorld(), { signal: AbortSignal.abort() }), { value: undefined, done: true });
  const controller = new AbortController();
  const hang = (init) =>
    new Promise((_, reject) => {
      init.signal.addEventListener("abort", () => reject(init.signal.reason));
      setImmediate(() => controller.abort());
    });
  const ended = await first(makeWorld({ outcomes: [hang] }), { signal: controller.signal });
  assert.deepEqual(ended, { value: undefined, done: true });
});

const TIME = { initial_date: "2026-11-01T00:00:00Z", final_date: "2026-11-02T00:00:00Z" };

test("a file is given piece by piece, and one that breaks off is an error", async () => {
  const headers = { "content-type": "text/csv", "content-disposition": 'attachment; filename="../a\\statement.csv"' };
  const pieces = (isBroken) => () => {
    const left = ["one", "two"];
    const body = new ReadableStream({
      pull(controller) {
        if (left.length > 0) {
          controller.enqueue(new TextEncoder().encode(left.shift()));
        } else if (isBroken) {
          controller.error(new TypeError("terminated"));
        } else {
          controller.close();
        }
      },
    });
    return new Response(body, { headers });
  };
  const world = makeWorld({ outcomes: [pieces(false), pieces(true)] });
  const file = await world.client.downloadStatement({ ...TIME, format: "csv" });
  assert.deepEqual([file.fileName, file.mediaType], ["statement.csv", "text/csv"]);
  let text = "";
  for await (const some of file) {
    text += Buffer.from(some).toString();
  }
  assert.equal(text, "onetwo");
  const broken = await world.client.downloadStatement({ ...TIME, format: "csv" });
  await assert.rejects(async () => {
    for await (const _ of broken) {
      // until it breaks
    }
  }, { name: "NoAnswer", message: /the download was aborted/ });
  const left = await makeWorld({ outcomes: [pieces(false)] }).client.downloadStatement({ ...TIME, format: "csv" });
  await left.cancel();
});

test("a file that the service refuses is a refusal", async () => {
  const world = makeWorld({ outcomes: [refused(400, "BAD_REQUEST")] });
  await assert.rejects(world.client.downloadStatement({ ...TIME, format: "ofx" }), { code: "BAD_REQUEST" });
});

test("what is not ready says so without an error, and anything else may be asked for", async () => {
  const notReady = () => Response.json({ status: "not ready", error: "database" }, { status: 503 });
  const world = makeWorld({ outcomes: [notReady, () => Response.json({ cobs: [] }), done({ id: 1 }), () => new Response("text")] });
  assert.deepEqual(await world.client.readiness(), { status: "not ready", error: "database" });
  assert.deepEqual(await world.client.request("get", "/pix/v2/cob", { query: { inicio: new Date(0) } }), { cobs: [] });
  assert.deepEqual(await world.client.request("POST", "/v1/connect/charge", { body: { external_id: "a" } }), { id: 1 });
  assert.equal(await world.client.request("GET", "/metrics"), "text");
  assert.equal(world.sent[0].token, undefined);
  assert.equal(world.sent[1].url, "http://pix.example/pix/v2/cob?inicio=1970-01-01T00%3A00%3A00.000Z");
});

test("what the identity service answers is asked for there", async () => {
  const world = makeWorld({ outcomes: [() => Response.json({ keys: [] })], authUrl: "http://auth.example/iam" });
  assert.deepEqual(await world.client.identity.keySet(), { keys: [] });
  assert.equal(world.sent[0].url, "http://auth.example/iam/.well-known/jwks.json");
});

test("the package can be required, and says its version", () => {
  const required = createRequire(import.meta.url)("pixconnect-client");
  assert.equal(typeof required.verifyWebhook, "function");
  assert.notEqual(required.Client, Client);
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.deepEqual([VERSION, required.VERSION], [version, version]);
});
