// Webhook verification by the vectors that the Python client's tests share.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  InvalidWebhook,
  TOLERANCE_S,
  UnknownSigningKey,
  verifyNotice,
  verifyWebhook,
  verifyWebhookBody,
  verifyWebhookJws,
} from "pixconnect-client";

const VECTORS = JSON.parse(
  readFileSync(process.env.PIXCONNECT_VECTORS ?? new URL("../../../tests/vectors/webhooks.json", import.meta.url), "utf8"),
);

function judge(given) {
  const usual = given.form === "notice" ? VECTORS.notice : VECTORS.event;
  const body = "body_base64" in given ? Buffer.from(given.body_base64, "base64") : Buffer.from(given.body ?? usual);
  const window = { now: () => given.now ?? VECTORS.now, toleranceS: given.tolerance_s ?? TOLERANCE_S };
  const jws = { ...window, keys: "keys" in given ? given.keys : VECTORS.keys, holderId: given.holder_id };
  switch (given.form) {
    case "standard":
      return tell(verifyWebhook(body, given.headers, given.secrets, window));
    case "body":
      return tell(verifyWebhookBody(body, given.headers, given.secrets));
    case "jws":
      return tell(verifyWebhookJws(body, given.headers, jws));
    default:
      return verifyNotice(body, given.headers, { ...jws, pixKeys: given.pix_keys }).map((pix) => pix.endToEndId);
  }
}

function tell({ id, name }) {
  return { id, name };
}

for (const given of VECTORS.cases) {
  test(`a webhook is judged as the vectors say: ${given.name}`, () => {
    if ("told" in given) {
      assert.deepEqual(judge(given), given.told);
      return;
    }
    assert.throws(
      () => judge(given),
      (error) => {
        assert.ok(error instanceof InvalidWebhook, String(error));
        assert.ok(error.message.includes(given.refused), `${error.message} is not: ${given.refused}`);
        assert.equal(error instanceof UnknownSigningKey, given.is_unknown_key ?? false);
        return true;
      },
    );
  });
}

const { event: body } = VECTORS;
const { headers, secrets } = VECTORS.cases[0];
const now = () => VECTORS.now;

test("headers are read as node and as fetch have them", () => {
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]]));
  assert.equal(verifyWebhook(Buffer.from(body), new Headers(headers), secrets, { now }).id, 1);
  assert.equal(verifyWebhook(new Uint8Array(Buffer.from(body)), lower, secrets[0], { now }).id, 1);
});

test("what only the receiver's own program can get wrong is a TypeError", () => {
  assert.throws(() => verifyWebhook(body, headers, secrets, { now }), /raw bytes/);
  for (const secret of ["", [], [...secrets, ""], "whsec_", undefined]) {
    assert.throws(() => verifyWebhook(Buffer.from(body), headers, secret, { now }), { name: "TypeError", message: /secret: must not be empty/ });
    assert.throws(() => verifyWebhookBody(Buffer.from(body), headers, secret), { name: "TypeError", message: /secret: must not be empty/ });
  }
  const notice = { keys: VECTORS.keys, holderId: 7, now };
  assert.throws(() => verifyWebhookJws(Buffer.from(body), headers, { ...notice, holderId: "" }), /holderId: must not be empty/);
  assert.throws(() => verifyWebhookJws(Buffer.from(body), headers, { ...notice, holderId: undefined }), /holderId: must not be empty/);
  for (const pixKeys of ["", [], ["loja@shop.example", ""], undefined]) {
    assert.throws(() => verifyNotice(Buffer.from(body), headers, { ...notice, pixKeys }), /pixKeys: must not be empty/);
  }
});

test("without being told the time is the machine's, and what is no number refuses", () => {
  assert.throws(() => verifyWebhook(Buffer.from(body), headers, secrets), /webhook-timestamp: is /);
  assert.throws(() => verifyWebhook(Buffer.from(body), headers, secrets, { now: () => Number.NaN }), /is older/);
  assert.throws(() => verifyWebhook(Buffer.from(body), headers, secrets, { now, toleranceS: Number.NaN }), /is older/);
});

test("no refusal has a secret in it", () => {
  for (const given of VECTORS.cases.filter((one) => "refused" in one && "secrets" in one)) {
    assert.throws(() => judge(given), (error) => !given.secrets.some((secret) => error.message.includes(secret)));
  }
});
