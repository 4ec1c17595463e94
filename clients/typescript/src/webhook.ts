/**
 * Verify the signature of a webhook. Pass the raw body, and do not use its contents before the check.
 *
 * Each webhook has three signatures:
 *
 * - `verifyWebhook` checks the signature of the Standard Webhooks specification. It covers event id, timestamp and body.
 * - `verifyWebhookBody` checks `X-Webhook-Signature`. It covers the body only.
 * - `verifyWebhookJws` checks `X-Webhook-Signature-JWS` against the service's published keys. One key signs for all holders, so
 *   this function also needs your holder id.
 *
 * `verifyNotice` checks the notices of the central bank's Pix API, and that the paid key is yours. No function falls back to
 * another signature, since an attacker would choose the weakest.
 *
 * The service or an eavesdropper can send a webhook again, and it stays valid within the time window. The event's `id` is the same
 * on every attempt: store the ids that you have processed.
 *
 * Header names are case-insensitive. While you rotate a secret pass both; one match is enough.
 */
import { createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify } from "node:crypto";

import { InvalidWebhook, UnknownSigningKey } from "./errors.js";
import type { KeySet, WebhookEvent } from "./types.js";

/** Maximum difference between a webhook's timestamp and this machine's clock, in seconds. */
export const TOLERANCE_S = 300;

const ENCODED_PREFIX = "whsec_";
const COORDINATE_OCTETS = 32;
/** Unix time in seconds, enough until the year 30000. */
const INSTANT_END_S = 1e12;

/** Headers as Node.js has them, or a `Headers` object of `fetch`. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface WindowOptions {
  /** Maximum age of the timestamp, in both directions. */
  toleranceS?: number;
  /** Returns the current Unix time in seconds. */
  now?: () => number;
}

export interface JwsOptions extends WindowOptions {
  /**
   * The result of `client.identity.keySet()`, or `/.well-known/jwks.json` fetched over https. Cache it while it contains the key.
   * An unknown `kid` can come from an attacker: fetch the keys again at most once a minute.
   */
  keys: KeySet;
  /** Your holder id, as in tokens. Webhooks for other holders are rejected. */
  holderId: number | string;
}

export interface NoticeOptions extends JwsOptions {
  /** Your keys with this URL in normalized form: `+55...`, e-mail in lower case, no punctuation. */
  pixKeys: string | readonly string[];
}

/** A Pix as the central bank's API defines it. */
export type NoticePix = Record<string, unknown> & { chave: string };

/**
 * Check `webhook-signature` and return the event.
 *
 * @param body The raw request body, neither decoded nor re-encoded.
 * @param secret The endpoint's secret, or several of which one must match.
 * @throws InvalidWebhook A header is missing or malformed, the timestamp is too old or too new, or no signature matches.
 * @throws TypeError The body is a string, or the secret is missing or empty.
 */
export function verifyWebhook(
  body: Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: WindowOptions = {},
): WebhookEvent {
  checkBody(body);
  const keys = readTexts("secret", secret, "an empty secret would accept any sender").map(standardKey);
  const name = readHeader(headers, "webhook-id");
  const timestamp = readHeader(headers, "webhook-timestamp");
  const signatures = readHeader(headers, "webhook-signature").split(" ");
  checkAge("webhook-timestamp", /^[0-9]{1,12}$/.test(timestamp) ? Number(timestamp) : undefined, options);
  // The raw bytes: JSON that was parsed and serialized again has another signature.
  const expected = keys.map(
    (key) => `v1,${createHmac("sha256", key).update(`${name}.${timestamp}.`).update(body).digest("base64")}`,
  );
  if (!anyFits(signatures, expected)) {
    throw new InvalidWebhook("webhook-signature: no signature fits the body, the id, the time and the secret");
  }
  return readEvent(body);
}

/**
 * Check `X-Webhook-Signature` and return the event. It covers no timestamp, so replayed webhooks are accepted.
 *
 * @throws InvalidWebhook The header is missing or does not match.
 * @throws TypeError The body is a string, or the secret is missing or empty.
 */
export function verifyWebhookBody(
  body: Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
): WebhookEvent {
  checkBody(body);
  const secrets = readTexts("secret", secret, "an empty secret would accept any sender");
  const signature = readHeader(headers, "x-webhook-signature");
  const expected = secrets.map((one) => createHmac("sha256", one).update(body).digest("hex"));
  if (!anyFits([signature], expected)) {
    throw new InvalidWebhook("X-Webhook-Signature: does not fit the body and the secret");
  }
  return readEvent(body);
}

/**
 * Check `X-Webhook-Signature-JWS` (signer, holder, time and event id) and return the event.
 *
 * @throws UnknownSigningKey The key set has no webhook signing key with this `kid`.
 * @throws InvalidWebhook A header is missing or malformed, the signature does not match, or it is for another holder, another
 *   event or another time.
 * @throws TypeError The body is a string, or the holder id is empty.
 */
export function verifyWebhookJws(body: Uint8Array, headers: WebhookHeaders, options: JwsOptions): WebhookEvent {
  const message = checkJws(body, headers, options);
  const event = readEvent(body);
  if (message !== `evt_${event.id}`) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: jti: is of another event than the body");
  }
  return event;
}

/**
 * Check a notice of the central bank's Pix API (`PUT /webhook/{chave}`) and return its Pix as that API defines them.
 *
 * Another holder can register your URL for one of their keys. The service then sends you valid notices about their money. So each
 * `chave` must be one of your own. A notice can be outdated: call `GET /pix/{e2eid}` before you deliver goods.
 *
 * @throws UnknownSigningKey The key set has no webhook signing key with this `kid`.
 * @throws InvalidWebhook As above, or it is not a notice, or the paid key is not yours.
 * @throws TypeError The body is a string, or the holder id or the list of keys is empty.
 */
export function verifyNotice(body: Uint8Array, headers: WebhookHeaders, options: NoticeOptions): NoticePix[] {
  const own = readTexts("pixKeys", options.pixKeys, "without your keys Pix to other holders' keys would pass");
  if (!checkJws(body, headers, options).startsWith("pix_")) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: jti: is of no notice");
  }
  const found = parse(body);
  const told = isRecord(found) ? found["pix"] : undefined;
  if (!Array.isArray(told) || !told.every(isRecord)) {
    throw new InvalidWebhook("body: signed, but no notice of this service");
  }
  told.forEach((one, number) => {
    const paidTo = one["chave"];
    if (typeof paidTo !== "string" || !anyFits([paidTo], own)) {
      throw new InvalidWebhook(`body: pix[${number}].chave: is no key of yours`);
    }
  });
  return told as NoticePix[];
}

/** Check signer, holder and time; return the id of the message. */
function checkJws(body: Uint8Array, headers: WebhookHeaders, options: JwsOptions): string {
  checkBody(body);
  const audience = String(options.holderId ?? "");
  if (audience === "") {
    throw new TypeError("holderId: must not be empty; without it webhooks for other holders would pass");
  }
  // Check the signature before using any field of the header.
  const { head, fields, signature } = readJws(readHeader(headers, "x-webhook-signature-jws"));
  const key = findKey(options.keys, fields["kid"]);
  if (!isSigned(Buffer.from(`${head}.${Buffer.from(body).toString("base64url")}`), signature, key)) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: does not fit the body and the key");
  }
  const named = fields["aud"];
  if (typeof named !== "string" || !isEqual(named, audience)) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: aud: is for another holder");
  }
  const message = readHeader(headers, "webhook-id");
  if (fields["jti"] !== message) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: jti: is of another event than webhook-id");
  }
  checkAge("X-Webhook-Signature-JWS: iat", fields["iat"], options);
  return message;
}

/** Split a detached JWS into its protected header (raw and decoded) and its signature. */
function readJws(text: string): { head: string; fields: Record<string, unknown>; signature: Buffer } {
  const [head = "", payload, encoded = "", ...more] = text.split(".");
  const octets = decode(head);
  const fields = octets === undefined ? undefined : parse(octets);
  const signature = decode(encoded);
  if (payload !== "" || more.length > 0 || !isRecord(fields) || signature === undefined || hasHalves(fields)) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: must be a detached JWS");
  }
  // Accept ES256 only, regardless of the header. No critical extension is supported.
  if (fields["alg"] !== "ES256" || "crit" in fields) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: must be signed with ES256, and have nothing critical");
  }
  return { head, fields, signature };
}

function findKey(keys: unknown, kid: unknown): { x: string; y: string } {
  // The key set may come from the network unchecked: skip entries that are not ES256 signing keys.
  const listed = isRecord(keys) ? keys["keys"] : undefined;
  for (const key of Array.isArray(listed) ? listed : []) {
    if (!isRecord(key) || typeof key["kid"] !== "string" || key["kid"] !== kid) {
      continue;
    }
    const { kty, crv, alg = "ES256", use = "sig", x, y } = key;
    const fits = kty === "EC" && crv === "P-256" && alg === "ES256" && use === "sig";
    if (fits && typeof x === "string" && typeof y === "string" && [x, y].every(isCoordinate)) {
      return { x, y };
    }
  }
  throw new UnknownSigningKey("X-Webhook-Signature-JWS: kid: is none of the keys that are known");
}

function isCoordinate(text: string): boolean {
  return decode(text)?.length === COORDINATE_OCTETS;
}

/** Verify an ES256 signature (RFC 7518): r and s of 32 bytes each. */
function isSigned(message: Buffer, signature: Buffer, { x, y }: { x: string; y: string }): boolean {
  if (signature.length !== 2 * COORDINATE_OCTETS) {
    return false;
  }
  let key: KeyObject;
  try {
    key = createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
  } catch {
    return false; // the point is not on the curve
  }
  return verify("sha256", message, { key, dsaEncoding: "ieee-p1363" }, signature);
}

/** Decode canonical base64url without padding; return undefined for any other form. */
function decode(text: string): Buffer | undefined {
  const octets = Buffer.from(text, "base64url");
  return octets.toString("base64url") === text ? octets : undefined;
}

function checkBody(body: unknown): asserts body is Uint8Array {
  if (!(body instanceof Uint8Array)) {
    throw new TypeError("body: must be the raw bytes of the request, before decoding or parsing");
  }
}

function readTexts(name: string, given: string | readonly string[], why: string): readonly string[] {
  const texts = typeof given === "string" ? [given] : given;
  // A secret that consists of the prefix alone counts as empty.
  const isEmpty = (one: unknown): boolean => typeof one !== "string" || one === "" || one === ENCODED_PREFIX;
  if (!Array.isArray(texts) || texts.length === 0 || texts.some(isEmpty)) {
    throw new TypeError(`${name}: must not be empty; ${why}`);
  }
  return texts;
}

/** Decode a `whsec_` secret from base64; use any other secret as UTF-8. The service does the same. */
function standardKey(secret: string): Buffer {
  if (secret.startsWith(ENCODED_PREFIX)) {
    const encoded = secret.slice(ENCODED_PREFIX.length);
    // Node.js also decodes invalid base64, so check the form first.
    if (/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(encoded)) {
      return Buffer.from(encoded, "base64");
    }
  }
  return Buffer.from(secret);
}

function readHeader(headers: WebhookHeaders, name: string): string {
  const given =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1];
  const value = (typeof given === "string" ? given : (given ?? []).join(", ")).trim();
  if (value === "") {
    throw new InvalidWebhook(`${name}: missing`);
  }
  return value;
}

function checkAge(name: string, sentS: unknown, { toleranceS = TOLERANCE_S, now = () => Date.now() / 1000 }: WindowOptions): void {
  if (typeof sentS !== "number" || !Number.isSafeInteger(sentS) || Math.abs(sentS) >= INSTANT_END_S) {
    throw new InvalidWebhook(`${name}: must be whole seconds since 1970`);
  }
  const ageS = now() - sentS;
  // Written so that NaN is rejected.
  if (!(ageS <= toleranceS)) {
    throw new InvalidWebhook(`${name}: is older than ${toleranceS} s`);
  }
  if (!(-ageS <= toleranceS)) {
    throw new InvalidWebhook(`${name}: is more than ${toleranceS} s ahead of this machine's clock`);
  }
}

function anyFits(found: readonly string[], expected: readonly string[]): boolean {
  // Compare every pair, so that the time does not depend on the result.
  let fits = false;
  for (const one of found) {
    for (const other of expected) {
      fits = isEqual(one, other) || fits;
    }
  }
  return fits;
}

function isEqual(one: string, other: string): boolean {
  const octets = Buffer.from(one);
  const others = Buffer.from(other);
  return octets.length === others.length && timingSafeEqual(octets, others);
}

function readEvent(body: Uint8Array): WebhookEvent {
  const found = parse(body);
  const isEvent =
    isRecord(found) &&
    Number.isSafeInteger(found["id"]) &&
    typeof found["name"] === "string" &&
    isRecord(found["payload"]) &&
    typeof found["create_timestamp"] === "string";
  if (!isEvent) {
    throw new InvalidWebhook("body: signed, but not an event of this service");
  }
  return found as unknown as WebhookEvent;
}

/** Parse JSON in UTF-8; return undefined if it is invalid. */
function parse(octets: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets));
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a header contains a lone surrogate, which is not valid UTF-8. */
function hasHalves(fields: Record<string, unknown>): boolean {
  return Object.values(fields).some((one) => typeof one === "string" && Buffer.from(one).toString() !== one);
}
