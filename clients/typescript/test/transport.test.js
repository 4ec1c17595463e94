// Retries, and what a caller can conclude after an error.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ApiError,
  Client,
  Conflict,
  CursorExpired,
  Forbidden,
  InvalidRequest,
  NoAnswer,
  NotFound,
  RateLimited,
  Unauthorized,
  Unavailable,
} from "pixconnect-client";
import { CHARGE, done, lost, makeWorld, refused, unreached } from "./world.js";

const NEW = { amount: 10607, key: "loja@pix.example" };
const PASSING = {
  lost,
  unreached,
  503: refused(503, "SERVICE_UNAVAILABLE"),
  504: refused(504, "OUTCOME_UNKNOWN"),
  429: refused(429, "RATE_LIMITED"),
  "a proxy's page": () => new Response("<html>", { status: 502 }),
};

for (const [name, outcome] of Object.entries(PASSING)) {
  test(`after ${name} what is named is sent again, octet for octet under the same name, and reads are`, async () => {
    const world = makeWorld({ outcomes: [outcome, outcome, done(), outcome, done()], retries: 2 });
    assert.deepEqual(await world.client.charges.create(NEW), CHARGE);
    assert.equal(world.sent.length, 3);
    assert.equal(new Set(world.sent.map((one) => one.text)).size, 1);
    assert.match(world.sent[0].body.external_id, /^[0-9a-f]{32}$/);
    assert.deepEqual(await world.client.charges.get(7), CHARGE);
    assert.equal(world.sent.length, 5);
  });

  test(`after ${name} what has no name is never sent again`, async () => {
    for (const ask of [
      (client) => client.endpoints.create({ url: "https://shop.example", secret: "s".repeat(32), event_types: [] }),
      (client) => client.endpoints.replay(7, { initial_date: new Date(0), final_date: new Date(1) }),
      (client) => client.deliveries.redeliver(7),
      (client) => client.sandbox.receive({ key: "k", amount: 1 }),
      (client) => client.request("POST", "/v1/connect/charge", { body: NEW }),
      (client) => client.request("DELETE", "/v1/webhook/endpoints/7"),
    ]) {
      const world = makeWorld({ outcomes: [outcome] });
      await assert.rejects(ask(world.client), (error) => error.externalId === undefined);
      assert.equal(world.sent.length, 1);
    }
  });
}

test("each charge, transfer and refund has a name of its own, made before it is sent or given", async () => {
  const world = makeWorld();
  await world.client.charges.create(NEW);
  await world.client.charges.create({ ...NEW, external_id: undefined });
  await world.client.transfers.createByKey({ amount: 1, key: "k", key_type: "EMAIL" }, { payeeTaxId: "52998224725" });
  await world.client.transfers.createByAccount({ amount: 1, credit_party: {} });
  await world.client.transfers.createByQrCode({ amount: 1, emv: "0002" });
  await world.client.refunds.create({ end_to_end_id: "E1", amount: 1 });
  const names = world.sent.map((one) => one.body.external_id);
  assert.equal(new Set(names).size, 6);
  assert.ok(names.every((name) => /^[0-9a-f]{32}$/.test(name)));
  assert.equal(world.sent[2].payee, "52998224725");
  await world.client.charges.create({ ...NEW, external_id: "order-1" }, { base64: true, requestId: "mine" });
  assert.equal(world.sent[6].body.external_id, "order-1");
  assert.equal(world.sent[6].url, "http://pix.example/v1/connect/charge?base64=true");
  assert.equal(world.sent[6].requestId, "mine");
});

test("what the program does to its arguments meanwhile changes no later try", async () => {
  const charge = { ...NEW };
  const world = makeWorld({
    outcomes: [
      () => {
        charge.amount = 1;
        return lost();
      },
    ],
  });
  await world.client.charges.create(charge);
  assert.deepEqual(world.sent.map((one) => one.body.amount), [10607, 10607]);
  assert.equal(charge.external_id, undefined);
});

test("once a try may have had its effect no later refusal takes that back", async () => {
  const world = makeWorld({ outcomes: [lost, refused(422, "INSUFFICIENT_FUNDS")] });
  await assert.rejects(world.client.transfers.createByQrCode({ amount: 1, emv: "0002", external_id: "t-1" }), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.ok(error.mayHaveHappened);
    assert.equal(error.externalId, "t-1");
    return true;
  });
});

test("it says whether what was asked for can have happened", async () => {
  const asked = async (outcome) => {
    const world = makeWorld({ outcomes: [outcome], retries: 0 });
    return world.client.charges.create({ ...NEW, external_id: "o" }).catch((error) => error);
  };
  for (const [outcome, mayHaveHappened] of [
    [lost, true],
    [unreached, false],
    [refused(503, "SERVICE_UNAVAILABLE"), false],
    [refused(504, "OUTCOME_UNKNOWN"), true],
    [refused(500, "INTERNAL_ERROR"), true],
    [refused(400, "BAD_REQUEST"), false],
    [() => new Response("<html>", { status: 502 }), true],
    [() => new Response("not json"), true],
    [() => Response.json({ success: true }), true],
    [() => new Response(null, { status: 307, headers: { location: "http://evil.example/" } }), true],
    // An established connection may fail with the same code.
    [() => lostWith({ code: "ECONNREFUSED", syscall: "read" }), true],
    [() => lostWith({ code: "ENOTFOUND" }), false],
    [() => lostWith({ code: "UND_ERR_CONNECT_TIMEOUT" }), false],
    [() => lostWith({ code: "UND_ERR_SOCKET" }), true],
  ]) {
    const error = await asked(outcome);
    assert.equal(error.mayHaveHappened, mayHaveHappened, String(error));
    assert.equal(error.externalId, "o");
  }
  const several = new AggregateError([Object.assign(new Error("a"), { syscall: "connect" })]);
  assert.equal((await asked(() => Promise.reject(new TypeError("fetch failed", { cause: several })))).mayHaveHappened, false);
  // A read has no effect.
  await assert.rejects(makeWorld({ outcomes: [lost], retries: 0 }).client.charges.get(7), { mayHaveHappened: false });
});

test("refusals of the central bank's API and of OAuth are certain", async () => {
  const problem = { type: "about:blank", title: "x", detail: "Veja", correlationId: "r-2", violacoes: [{ razao: "passa" }] };
  const login = { error: "invalid_client", error_description: "wrong" };
  for (const [status, body, kind, reason] of [[400, problem, InvalidRequest, "Veja"], [401, login, Unauthorized, "wrong"]]) {
    const refusal = () => Response.json(body, { status });
    const error = await makeWorld({ outcomes: [refusal, refusal] }).client.request("PUT", "/x").catch((found) => found);
    assert.ok(error instanceof kind, String(error));
    assert.equal(error.mayHaveHappened, false);
    assert.ok(error.message.includes(reason));
    assert.deepEqual(error.details.violacoes, body.violacoes);
  }
});

function lostWith(facts) {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("gone"), facts) });
}

test("what another try cannot mend is sent once", async () => {
  for (const outcome of [
    refused(400, "BAD_REQUEST"),
    refused(422, "INSUFFICIENT_FUNDS"),
    refused(500, "INTERNAL_ERROR"),
    () => new Response("not json"),
    () => new Response(null, { status: 307 }),
    refused(429, "RATE_LIMITED", { "Retry-After": "61" }),
  ]) {
    const world = makeWorld({ outcomes: [outcome] });
    await assert.rejects(world.client.charges.create(NEW));
    assert.equal(world.sent.length, 1);
  }
});

test("it is tried four times more at most, and not again where that is turned off", async () => {
  const off = makeWorld({ outcomes: [lost], retries: 0 });
  await assert.rejects(off.client.balance(), NoAnswer);
  assert.equal(off.sent.length, 1);
  const usual = makeWorld({ outcomes: Array.from({ length: 9 }, () => unreached) });
  await assert.rejects(usual.client.balance(), NoAnswer);
  assert.equal(usual.sent.length, 5);
});

test("a refusal says its code, reason, field, request and for how long to wait", async () => {
  const world = makeWorld({ outcomes: [refused(429, "RATE_LIMITED", { "Retry-After": "3600" })] });
  const error = await world.client.balance().catch((found) => found);
  const { status, code, reason, field, requestId, retryAfter, name, message } = error;
  assert.deepEqual(
    { status, code, reason, field, requestId, retryAfter, name, message },
    {
      status: 429,
      code: "RATE_LIMITED",
      reason: "amount: must be less",
      field: "amount",
      requestId: "r-1",
      retryAfter: 3600,
      name: "RateLimited",
      message: "RATE_LIMITED: amount: must be less (request r-1)",
    },
  );
});

test("each status has its class", async () => {
  for (const [status, code, kind] of [
    [400, "BAD_REQUEST", InvalidRequest],
    [422, "EXTERNAL_ID_CONFLICT", Conflict],
    [401, "UNAUTHORIZED", Unauthorized],
    [403, "FORBIDDEN", Forbidden],
    [404, "NOT_FOUND", NotFound],
    [410, "CURSOR_EXPIRED", CursorExpired],
    [429, "RATE_LIMITED", RateLimited],
    [503, "SERVICE_UNAVAILABLE", Unavailable],
    [418, "A_LATER_ONE", InvalidRequest],
  ]) {
    const world = makeWorld({ outcomes: [refused(status, code), refused(status, code)], retries: 0 });
    await assert.rejects(world.client.balance(), (error) => error.constructor === kind && error instanceof ApiError);
  }
});

test("many who wait for a token are given one, by one login", async () => {
  const world = makeWorld();
  await Promise.all(Array.from({ length: 20 }, () => world.client.balance()));
  assert.equal(world.tokensCount, 1);
  assert.equal(world.grant, "grant_type=client_credentials&client_id=me&client_secret=a%26b");
  assert.ok(world.sent.every((one) => one.token === "token-1" && one.redirect === "manual"));
});

test("a token that is refused is replaced once, for all that held it, and another refusal is told", async () => {
  const no = refused(401, "UNAUTHORIZED");
  const world = makeWorld({ outcomes: [no, no, no] });
  await Promise.all([1, 2, 3].map(() => world.client.balance()));
  assert.equal(world.tokensCount, 2);
  world.outcomes.push(no, no);
  await assert.rejects(world.client.transfers.createByQrCode({ amount: 1, emv: "0002" }), Unauthorized);
  assert.equal(world.sent.length, 8);
});

test("a token is renewed before it ends", async () => {
  const world = makeWorld({ lifetimeS: 0 });
  await world.client.balance();
  await world.client.balance();
  assert.deepEqual(world.sent.map((one) => one.token), ["token-1", "token-2"]);
});

test("after a login that failed anything is tried again, and each who waited has an error of its own", async () => {
  const world = makeWorld({ logins: [lost, refused(503, "SERVICE_UNAVAILABLE")] });
  await world.client.deliveries.redeliver(7);
  assert.equal(world.sent.length, 1);
  const wrong = makeWorld({ logins: [refused(401, "UNAUTHORIZED")], retries: 0 });
  const [one, other] = await Promise.all([
    wrong.client.charges.create({ ...NEW, external_id: "a" }).catch((error) => error),
    wrong.client.charges.create({ ...NEW, external_id: "b" }).catch((error) => error),
  ]);
  assert.deepEqual([one.externalId, other.externalId], ["a", "b"]);
  for (const error of [one, other]) {
    assert.ok(error instanceof Unauthorized && error.isOfLogin && !error.mayHaveHappened);
  }
  assert.equal(wrong.sent.length, 0);
});

/** Hangs until it is aborted, after `begin` was called. */
function hangs(begin = () => undefined) {
  return (init) =>
    new Promise((_, reject) => {
      init.signal.addEventListener("abort", () => reject(init.signal.reason));
      setImmediate(begin);
    });
}

test("a caller that gives up ends its own request only, and may have had its effect", async () => {
  const controller = new AbortController();
  const world = makeWorld({ outcomes: [hangs(() => controller.abort())] });
  const asked = world.client.charges.create({ ...NEW, external_id: "o" }, { signal: controller.signal });
  await assert.rejects(asked, { name: "NoAnswer", mayHaveHappened: true, isTransient: false, externalId: "o" });
  assert.equal(world.sent.length, 1);
  await assert.rejects(world.client.balance({ signal: AbortSignal.abort() }), { name: "NoAnswer", mayHaveHappened: false });
  assert.equal(world.sent.length, 1);
  assert.deepEqual(await world.client.balance(), CHARGE);
});

test("one who gives up waiting for a token does not end the login of the others", async () => {
  const controller = new AbortController();
  const world = makeWorld();
  const [one, other] = [world.client.balance({ signal: controller.signal }), world.client.balance()];
  controller.abort();
  await assert.rejects(one, { name: "NoAnswer", mayHaveHappened: false });
  assert.deepEqual(await other, CHARGE);
  assert.equal(world.tokensCount, 1);
});

test("who gives up while it waits for another try is told what happened before", async () => {
  const controller = new AbortController();
  const first = () => {
    setImmediate(() => controller.abort());
    return lost();
  };
  const world = makeWorld({ outcomes: [first, lost] });
  await assert.rejects(world.client.charges.create(NEW, { signal: controller.signal }), { mayHaveHappened: true });
  assert.equal(world.sent.length, 1);
});

test("what is silent for too long is given up, and may have happened", async () => {
  const world = makeWorld({ outcomes: [hangs()], timeoutMs: 50, retries: 0 });
  await assert.rejects(world.client.charges.create(NEW), { name: "NoAnswer", mayHaveHappened: true, message: /nothing came for 0.05 s/ });
});

test("what cannot be sent as it was meant is not sent", async () => {
  const world = makeWorld();
  for (const name of ["", ".", "..", undefined, null, 1.5]) {
    await assert.rejects(world.client.charges.getByExternalId(name), { name: "TypeError", message: /externalId: must be/ });
  }
  for (const amount of [Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
    await assert.rejects(world.client.charges.create({ ...NEW, amount }), { name: "TypeError", message: /amount: must be/ });
  }
  await assert.rejects(world.client.sandbox.setClock(new Date("no")), /now: must be a point in time/);
  await assert.rejects(world.client.balance({ requestId: "a\nb" }), TypeError);
  await assert.rejects(world.client.request("GET", "v1/connect/health"), /path: must begin with a slash/);
  assert.equal(world.sent.length, 0);
  await world.client.charges.getByExternalId("a/b?c=../d é");
  assert.equal(world.sent[0].url, "http://pix.example/v1/connect/charge/external-id/a%2Fb%3Fc%3D..%2Fd%20%C3%A9");
});

test("a client that cannot work is not made", () => {
  const good = { baseUrl: "https://pix.example", clientId: "a", clientSecret: "b" };
  for (const [change, message] of [
    [{ baseUrl: "pix.example" }, /baseUrl: must be a URL/],
    [{ baseUrl: "ftp://pix.example" }, /baseUrl: must be/],
    [{ baseUrl: "https://a:b@pix.example" }, /baseUrl: must be/],
    [{ authUrl: "https://pix.example/?a=b" }, /authUrl: must be/],
    [{ clientId: undefined }, /clientId: must be a text/],
    [{ clientSecret: "" }, /clientSecret: must be a text/],
    [{ retries: -1 }, /retries: must be a whole number/],
    [{ timeoutMs: 0 }, /timeoutMs: must be a whole number/],
  ]) {
    assert.throws(() => new Client({ ...good, ...change }), { name: "TypeError", message });
  }
});

test("neither the client nor an error shows the secret", async () => {
  const { inspect } = await import("node:util");
  const world = makeWorld({ logins: [refused(401, "UNAUTHORIZED")] });
  const error = await world.client.balance().catch((found) => found);
  for (const shown of [inspect(world.client, { depth: 9, showHidden: true }), inspect(error, { depth: 9 })]) {
    assert.ok(!shown.includes("a&b") && !shown.includes("a%26b"));
  }
});
