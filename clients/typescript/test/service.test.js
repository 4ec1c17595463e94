// Against a real service, whose address and credentials are in the environment.
import assert from "node:assert/strict";
import { createServer, request as forward } from "node:http";
import { after, before, test } from "node:test";

import {
  Client,
  Conflict,
  InvalidRequest,
  NoAnswer,
  NotFound,
  Unauthorized,
  verifyNotice,
  verifyWebhook,
  verifyWebhookBody,
  verifyWebhookJws,
} from "pixconnect-client";

const { PIXCONNECT_API_URL: baseUrl, PIXCONNECT_AUTH_URL: authUrl } = process.env;
const { PIXCONNECT_CLIENT_ID: clientId, PIXCONNECT_CLIENT_SECRET: clientSecret } = process.env;
const { PIXCONNECT_HOLDER_ID: holderId, PIX_KEY: key } = process.env;
const skip = baseUrl === undefined ? "there is no PIXCONNECT_API_URL" : false;
/** Timeout for events that normally arrive at once; the machine may be busy. */
const PATIENCE_MS = 120_000;

const credentials = { authUrl, clientId, clientSecret, timeoutMs: 60_000 };
const client = skip ? undefined : new Client({ ...credentials, baseUrl });

/** A proxy that closes connections after the service has processed the request. */
class Breaker {
  breaksLeft = 0;
  passed = [];

  async listen() {
    this.server = createServer((asked, answer) => {
      const target = new URL(asked.url, baseUrl);
      const onward = forward(target, { method: asked.method, headers: { ...asked.headers, host: target.host } }, (found) => {
        const pieces = [];
        found.on("data", (piece) => pieces.push(piece));
        found.on("end", () => this.#finish(asked, found, Buffer.concat(pieces), answer));
      });
      onward.on("error", () => answer.destroy());
      asked.pipe(onward);
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  #finish(asked, found, content, answer) {
    this.passed.push({ method: asked.method, status: found.statusCode, content });
    this.breaksLeft -= 1;
    if (this.breaksLeft >= 0) {
      // Every other time after half of the response.
      if (this.breaksLeft % 2 === 1) {
        answer.writeHead(found.statusCode, { "content-type": "application/json", "content-length": content.length });
        answer.write(content.subarray(0, content.length / 2), () => answer.destroy());
      } else {
        answer.destroy();
      }
      return;
    }
    delete found.headers["transfer-encoding"];
    answer.writeHead(found.statusCode, found.headers).end(content);
  }
}

/** A webhook receiver to wait on. */
class Receiver {
  told = [];
  #waiting = [];

  async listen() {
    this.server = createServer(async (asked, answer) => {
      const pieces = [];
      for await (const piece of asked) {
        pieces.push(piece);
      }
      this.told.push({ path: asked.url, headers: asked.headers, body: Buffer.concat(pieces) });
      answer.writeHead(204).end();
      for (const look of this.#waiting) {
        look();
      }
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  async find(fits) {
    const deadlineMs = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = this.told.find(fits);
      if (found !== undefined) {
        return found;
      }
      assert.ok(performance.now() < deadlineMs, "no such webhook came");
      await new Promise((resolve) => {
        this.#waiting.push(resolve);
        setTimeout(resolve, 200);
      });
    }
  }
}

const breaker = new Breaker();
const receiver = new Receiver();
let broken;
let hookUrl;

before(async () => {
  if (!skip) {
    broken = new Client({ ...credentials, baseUrl: await breaker.listen(), retries: 10 });
    hookUrl = await receiver.listen();
  }
});

after(() => {
  breaker.server?.close();
  breaker.server?.closeAllConnections();
  receiver.server?.close();
  receiver.server?.closeAllConnections();
});

async function takeAll(items) {
  const found = [];
  for await (const one of items) {
    found.push(one);
  }
  return found;
}

async function settle(id) {
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const transfer = await client.transfers.get(id);
    if (transfer.status !== "PROCESSING") {
      return transfer;
    }
    assert.ok(performance.now() < deadlineMs, "it did not settle");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a charge is made, paid, found by each of its names, and returned in part", { skip }, async () => {
  const charge = await client.charges.create({ amount: 10607, key, external_id: "order-1" }, { base64: true });
  assert.equal(charge.status, "PENDING");
  assert.ok(charge.base64image.length > 100);
  const paid = await client.sandbox.pay({ emv: charge.emvqrcps });
  assert.equal(paid.status, "CONFIRMED");
  for (const found of [
    await client.charges.get(charge.id),
    await client.charges.getByExternalId("order-1"),
    await client.charges.getByTxid(charge.transaction_identification),
  ]) {
    assert.deepEqual([found.id, found.status], [charge.id, "APPROVED"]);
  }
  const { end_to_end_id: endToEndId, transfer_id: transferId } = await client.charges.payment(charge.id);
  assert.equal((await client.transfers.getByEndToEndId(endToEndId)).id, transferId);
  const refund = await client.refunds.create({ end_to_end_id: endToEndId, amount: 607, reason: "MD06" });
  assert.equal((await client.refunds.getByExternalId(refund.external_id)).id, refund.id);
  await assert.rejects(client.charges.create({ amount: 1, key, external_id: "order-1" }), (error) => {
    assert.ok(error instanceof Conflict && !error.mayHaveHappened && error.externalId === "order-1");
    return true;
  });
  assert.equal((await client.charges.location(charge.transaction_identification)).split(".").length, 3);
  assert.ok((await client.charges.locationKeys()).keys.length > 0);
});

test("money is sent once, though each answer of the first tries is lost after the work was done", { skip }, async () => {
  const before = await client.balance();
  const to = await client.sandbox.addKey({ key_type: "EMAIL" });
  // The token exists already, so that the call itself is cut off.
  await broken.balance();
  breaker.passed.length = 0;
  breaker.breaksLeft = 3;
  const sent = await broken.transfers.createByKey({ amount: 1234, key: to.key, key_type: "EMAIL" });
  const answers = breaker.passed.filter((one) => one.method === "POST");
  assert.ok(answers.length > 3);
  const done = answers.filter((one) => one.status === 200).map((one) => JSON.parse(one.content).data.id);
  assert.deepEqual([...new Set(done)], [sent.id]);
  assert.equal((await settle(sent.id)).status, "CONFIRMED");
  assert.equal((await takeAll(client.transfers.search({ external_id: sent.external_id }))).length, 1);
  // Neither includes amounts reserved by refunds of other tests.
  assert.equal((await client.balance()).available_funds, before.available_funds - 1234);
});

test("what was lost at each try is said to be unsure, and is found by its name", { skip }, async () => {
  breaker.breaksLeft = 1;
  const impatient = new Client({ ...credentials, baseUrl: `http://127.0.0.1:${breaker.server.address().port}`, retries: 0 });
  const to = await client.sandbox.addKey({ key_type: "EMAIL" });
  const error = await impatient.transfers.createByKey({ amount: 5, key: to.key, key_type: "EMAIL" }).catch((found) => found);
  assert.ok(error instanceof NoAnswer && error.mayHaveHappened, String(error));
  assert.equal((await client.transfers.getByExternalId(error.externalId)).amount, 5);
});

test("what has no name is done once and told as unsure", { skip }, async () => {
  const before = await client.balance();
  breaker.breaksLeft = 1;
  await assert.rejects(broken.sandbox.deposit({ amount: 100 }), { name: "NoAnswer", mayHaveHappened: true });
  assert.equal((await client.balance()).available_funds, before.available_funds + 100);
});

test("refusals say what is wrong", { skip }, async () => {
  await assert.rejects(client.charges.create({ amount: -1, key }), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.equal(error.field, "amount");
    assert.match(error.requestId, /^[\w.-]+$/);
    return true;
  });
  await assert.rejects(client.transfers.get(9_007_199_254_740_991, { requestId: "mine-1" }), (error) => {
    assert.ok(error instanceof NotFound);
    assert.equal(error.requestId, "mine-1");
    return true;
  });
  const wrong = new Client({ ...credentials, baseUrl, clientSecret: "wrong", retries: 0 });
  await assert.rejects(wrong.balance(), (error) => error instanceof Unauthorized && error.isOfLogin);
});

test("lists of many pages have each item once, and pages have their totals", { skip }, async () => {
  const names = Array.from({ length: 25 }, (_, number) => `many-${number}`);
  await Promise.all(names.map((name) => client.charges.create({ amount: 100, key, external_id: name })));
  const listed = await takeAll(client.charges.list({ status: "PENDING", page_size: 10 }));
  assert.deepEqual(new Set(listed.map((one) => one.external_id)), new Set(names));
  assert.equal(listed.length, names.length);
  const { value: page } = await client.charges.list({ page_size: 10 }).pages().next();
  assert.deepEqual([page.items.length, page.pagination.total_items], [10, names.length]);
  assert.ok((await takeAll(client.sandbox.keys({ page_size: 3 }))).length > 0);
});

test("the feed has each event once, though its answers are lost", { skip }, async () => {
  const all = [];
  const breaks = [];
  const controller = new AbortController();
  const through = new Client({ ...credentials, baseUrl: `http://127.0.0.1:${breaker.server.address().port}`, retries: 0 });
  await through.balance();
  const { cursor } = await through.events.feed({ start: "now" });
  const made = [];
  for (let number = 0; number < 6; number += 1) {
    made.push((await client.charges.create({ amount: 100 + number, key })).id);
  }
  breaker.breaksLeft = 2;
  const options = { signal: controller.signal, onBreak: (error) => breaks.push(error.name) };
  for await (const item of through.events.follow({ cursor, page_size: 2, wait_s: 1, resource: "charge" }, options)) {
    // Events get their feed position with a delay, so events of other tests may still arrive after "now".
    if (!made.includes(item.resource_id)) {
      continue;
    }
    assert.equal(item.name, "qrcode.pending");
    all.push(item.resource_id);
    if (all.length === made.length) {
      controller.abort();
    }
  }
  // Order is guaranteed per charge only.
  assert.deepEqual(all.toSorted((one, other) => one - other), made.toSorted((one, other) => one - other));
  assert.ok(breaks.length > 1, breaks.join());
});

test("a webhook of the service is believed by all its signatures, and by no other secret", { skip }, async () => {
  const endpoint = await client.endpoints.create({ url: `${hookUrl}/events`, event_types: ["qrcode.approved"] });
  const { secret } = endpoint;
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const charge = await client.charges.create({ amount: 777, key });
  await client.sandbox.pay({ emv: charge.emvqrcps });
  const { headers, body } = await receiver.find((one) => one.path === "/events");
  const keys = await client.identity.keySet();
  const event = verifyWebhook(body, headers, ["another secret of ours", secret]);
  assert.deepEqual([event.name, event.payload.id], ["qrcode.approved", charge.id]);
  assert.deepEqual(verifyWebhookBody(body, headers, secret), event);
  assert.deepEqual(verifyWebhookJws(body, headers, { keys, holderId }), event);
  assert.throws(() => verifyWebhook(body, headers, "another secret of ours"), /no signature fits/);
  assert.throws(() => verifyWebhookJws(body, headers, { keys, holderId: Number(holderId) + 1 }), /aud: is for another holder/);
  const [delivery] = await takeAll(client.deliveries.list(endpoint.id));
  assert.equal((await client.deliveries.get(delivery.id)).event_id, event.id);
  await client.deliveries.redeliver(delivery.id);
  assert.equal((await client.endpoints.change(endpoint.id, { status: "inactive" })).status, "inactive");
  assert.ok((await takeAll(client.endpoints.list())).some((one) => one.id === endpoint.id));
  await client.endpoints.delete(endpoint.id);
});

test("a notice of the central bank's interface is believed about one's own key only", { skip }, async () => {
  await client.request("PUT", `/pix/v2/webhook/${encodeURIComponent(key)}`, { body: { webhookUrl: `${hookUrl}/notices` } });
  const paid = await client.sandbox.receive({ key, amount: 999 });
  const { headers, body } = await receiver.find((one) => one.path === "/notices/pix");
  const keys = await client.identity.keySet();
  const told = verifyNotice(body, headers, { keys, holderId, pixKeys: [key] });
  assert.deepEqual(told.map((pix) => [pix.endToEndId, pix.valor]), [[paid.end_to_end_id, "9.99"]]);
  assert.throws(() => verifyNotice(body, headers, { keys, holderId, pixKeys: ["loja@shop.example"] }), /is no key of yours/);
  await client.request("DELETE", `/pix/v2/webhook/${encodeURIComponent(key)}`);
});

test("the statement comes as records and as a file, a receipt as a page of PDF", { skip }, async () => {
  const time = { initial_date: new Date(Date.now() - 86_400_000), final_date: new Date(Date.now() + 86_400_000) };
  const statement = await client.statement(time);
  assert.ok(statement.lines.length > 0);
  const file = await client.downloadStatement({ ...time, format: "csv" });
  const pieces = await takeAll(file);
  assert.ok(Buffer.concat(pieces).toString().split("\n").length > statement.lines.length);
  assert.match(file.mediaType, /^text\/csv/);
  assert.match(file.fileName, /\.csv$/);
  const sent = (await takeAll(client.transfers.search({ direction: "OUT", status: "CONFIRMED" })))[0];
  assert.equal(Buffer.from(await client.transfers.receiptFile(sent.id)).subarray(0, 5).toString(), "%PDF-");
  assert.ok((await client.transfers.receipt(sent.id)).end_to_end_id);
  assert.ok((await takeAll(client.transactions())).length > 0);
});

test("the service says how it is to whoever asks", { skip }, async () => {
  assert.equal((await client.liveness()).status, "alive");
  assert.equal((await client.readiness()).status, "ready");
  assert.ok((await client.health()).checks.database);
  assert.ok((await client.identity.metadata()).token_endpoint);
  assert.ok((await client.identity.currentKey()).pem);
});
