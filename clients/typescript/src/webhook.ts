/**
 * Check that a webhook came from the service: a receiver does so with the raw body, before it believes anything in it.
 *
 * There are three signatures. `verifyWebhook` checks that of the Standard Webhooks specification, which covers the event's id and
 * the time of the attempt. `verifyWebhookBody` checks `X-Webhook-Signature`, which covers the body alone. `verifyWebhookJws` checks
 * `X-Webhook-Signature-JWS` with the service's published keys; one key signs for all holders, so it must be told whose webhooks
 * these are. `verifyNotice` checks the same of what the webhook of a Pix key is told, and that the key is the receiver's own. None
 * falls back to another: an attacker would choose the weakest.
 *
 * What was sent once may be sent again, by the service or by who listened: within the window of time the same webhook is good
 * each time. The event's `id` is the same on every attempt: a receiver remembers what it has dealt with.
 *
 * Names of headers may be in any case. While a secret is being changed give both; one that fits is enough.
 */
import { createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify } from "node:crypto";

import { InvalidWebhook, UnknownSigningKey } from "./errors.js";
import type { KeySet, WebhookEvent } from "./types.js";

/** Seconds that the time of an attempt may differ from this machine's. */
export const TOLERANCE_S = 300;

const ENCODED_PREFIX = "whsec_";
const COORDINATE_OCTETS = 32;
/** Beyond the year 30000; seconds since 1970. */
const INSTANT_END_S = 1e12;

/** As Node has them, or a `Headers` of `fetch`. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface WindowOptions {
  /** How far the time of the attempt may be from now, before or after. */
  toleranceS?: number;
  /** Seconds since 1970. */
  now?: () => number;
}

export interface JwsOptions extends WindowOptions {
  /**
   * What `client.identity.keySet()` answers, or `/.well-known/jwks.json` read over https; kept for as long as it has the key.
   * Anybody can send you an unknown `kid`: read them again at most once a minute.
   */
  keys: KeySet;
  /** Whose webhooks these are, as in tokens; what is for another holder is refused. */
  holderId: number | string;
}

export interface NoticeOptions extends JwsOptions {
  /** Your keys that have this URL, as the service writes them: `+55...`, e-mail in lower case, no mask. */
  pixKeys: string | readonly string[];
}

/** A Pix in the words of the central bank's API. */
export type NoticePix = Record<string, unknown> & { chave: string };

/**
 * Check `webhook-signature`, and read the event.
 *
 * @param body The request's octets, as they came: not decoded, not written again.
 * @param secret The endpoint's, or several of which one must fit.
 * @throws InvalidWebhook A header is missing or unreadable, the time is too far off, or no signature fits.
 * @throws TypeError The body is text, or there is no secret, or an empty one.
 */
export function verifyWebhook(
  body: Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: WindowOptions = {},
): WebhookEvent {
  checkBody(body);
  const keys = readTexts("secret", secret, "anybody could sign with it").map(standardKey);
  const name = readHeader(headers, "webhook-id");
  const timestamp = readHeader(headers, "webhook-timestamp");
  const signatures = readHeader(headers, "webhook-signature").split(" ");
  checkAge("webhook-timestamp", /^[0-9]{1,12}$/.test(timestamp) ? Number(timestamp) : undefined, options);
  // The octets as they came: JSON that was parsed and written again would be signed differently.
  const expected = keys.map(
    (key) => `v1,${createHmac("sha256", key).update(`${name}.${timestamp}.`).update(body).digest("base64")}`,
  );
  if (!anyFits(signatures, expected)) {
    throw new InvalidWebhook("webhook-signature: no signature fits the body, the id, the time and the secret");
  }
  return readEvent(body);
}

/**
 * Check `X-Webhook-Signature`, and read the event. It does not cover the time: an old webhook is accepted for ever.
 *
 * @throws InvalidWebhook The header is missing, or does not fit.
 * @throws TypeError The body is text, or there is no secret, or an empty one.
 */
export function verifyWebhookBody(
  body: Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
): WebhookEvent {
  checkBody(body);
  const secrets = readTexts("secret", secret, "anybody could sign with it");
  const signature = readHeader(headers, "x-webhook-signature");
  const expected = secrets.map((one) => createHmac("sha256", one).update(body).digest("hex"));
  if (!anyFits([signature], expected)) {
    throw new InvalidWebhook("X-Webhook-Signature: does not fit the body and the secret");
  }
  return readEvent(body);
}

/**
 * Check `X-Webhook-Signature-JWS`: who signed, for whom, when and which event; and read the event.
 *
 * @throws UnknownSigningKey The keys have none of that name that can sign webhooks.
 * @throws InvalidWebhook A header is missing or unreadable, the signature does not fit, or it is for another holder, of another
 *   event, or from another time.
 * @throws TypeError The body is text, or there is no holder's id.
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
 * Check a notice of the central bank's Pix API (`PUT /webhook/{chave}`), and read its Pix, in that API's words.
 *
 * Anybody may name your URL for a key of theirs, and the service then tells you truthfully of money that is not yours. So each
 * `chave` must be one of your own. Ask `GET /pix/{e2eid}` before you deliver: what a notice says may have changed.
 *
 * @throws UnknownSigningKey The keys have none of that name that can sign webhooks.
 * @throws InvalidWebhook As above; or it is about a Pix that was paid to no key of yours, or no notice.
 * @throws TypeError The body is text, or there is no holder's id, or no key.
 */
export function verifyNotice(body: Uint8Array, headers: WebhookHeaders, options: NoticeOptions): NoticePix[] {
  const own = readTexts("pixKeys", options.pixKeys, "a Pix to somebody else's key would fit");
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

/** Check who signed, for whom and when; the name of the message. */
function checkJws(body: Uint8Array, headers: WebhookHeaders, options: JwsOptions): string {
  checkBody(body);
  const audience = String(options.holderId ?? "");
  if (audience === "") {
    throw new TypeError("holderId: missing or empty; what is signed for somebody else would fit");
  }
  // The signature first: what the header says is believed only after that.
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

/** The protected header as it came and as it reads, and the signature of a detached JWS. */
function readJws(text: string): { head: string; fields: Record<string, unknown>; signature: Buffer } {
  const [head = "", payload, encoded = "", ...more] = text.split(".");
  const octets = decode(head);
  const fields = octets === undefined ? undefined : parse(octets);
  const signature = decode(encoded);
  if (payload !== "" || more.length > 0 || !isRecord(fields) || signature === undefined || hasHalves(fields)) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: must be a detached JWS");
  }
  // One algorithm only, whatever the header asks for; and extensions that must be understood are not understood here.
  if (fields["alg"] !== "ES256" || "crit" in fields) {
    throw new InvalidWebhook("X-Webhook-Signature-JWS: must be signed with ES256, and have nothing critical");
  }
  return { head, fields, signature };
}

function findKey(keys: unknown, kid: unknown): { x: string; y: string } {
  // Whatever was read from the network may be given here: what is no key of ours is passed over.
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

/** Whether the key made this signature, r and s of 32 octets each, over the message: ES256 of RFC 7518. */
function isSigned(message: Buffer, signature: Buffer, { x, y }: { x: string; y: string }): boolean {
  if (signature.length !== 2 * COORDINATE_OCTETS) {
    return false;
  }
  let key: KeyObject;
  try {
    key = createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
  } catch {
    return false; // a point off the curve signs nothing
  }
  return verify("sha256", message, { key, dsaEncoding: "ieee-p1363" }, signature);
}

/** Base64url without padding, in its one right form; undefined if it is not. */
function decode(text: string): Buffer | undefined {
  const octets = Buffer.from(text, "base64url");
  return octets.toString("base64url") === text ? octets : undefined;
}

function checkBody(body: unknown): asserts body is Uint8Array {
  if (!(body instanceof Uint8Array)) {
    throw new TypeError("body: give the octets that came, before they are decoded or parsed");
  }
}

function readTexts(name: string, given: string | readonly string[], why: string): readonly string[] {
  const texts = typeof given === "string" ? [given] : given;
  // Of a secret that is encoded only what follows counts.
  const isEmpty = (one: unknown): boolean => typeof one !== "string" || one === "" || one === ENCODED_PREFIX;
  if (!Array.isArray(texts) || texts.length === 0 || texts.some(isEmpty)) {
    throw new TypeError(`${name}: missing or empty; ${why}`);
  }
  return texts;
}

/** `whsec_` and base64 is decoded; any other secret is its own octets, which the service does in the same way. */
function standardKey(secret: string): Buffer {
  if (secret.startsWith(ENCODED_PREFIX)) {
    const encoded = secret.slice(ENCODED_PREFIX.length);
    // Node decodes whatever it is given: only what is base64 for certain counts as that.
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
  // Asked so that what is no number refuses.
  if (!(ageS <= toleranceS)) {
    throw new InvalidWebhook(`${name}: is older than ${toleranceS} s`);
  }
  if (!(-ageS <= toleranceS)) {
    throw new InvalidWebhook(`${name}: is more than ${toleranceS} s ahead of this machine's clock`);
  }
}

function anyFits(found: readonly string[], expected: readonly string[]): boolean {
  // Every pair is compared, so that the time it takes tells nothing.
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

/** JSON in UTF-8, or undefined. */
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

/** Whether a text of the header has half a character, which no UTF-8 has. */
function hasHalves(fields: Record<string, unknown>): boolean {
  return Object.values(fields).some((one) => typeof one === "string" && Buffer.from(one).toString() !== one);
}
